"""A small German-English corpus made by a grammar, for a quickstart that downloads nothing.

One synchronous grammar writes every German sentence together with its English translation. German articles and
adjectives agree in gender, case and number; verbs stand second, first or last; separable prefixes, participles,
infinitives and negations go where German puts them, and English has its own word order, so that neither copying nor
word-by-word translation is enough.

The text is cased as in print (German nouns and the first word have a capital letter) and tokenized: one space between
tokens, with punctuation as separate tokens. No source sentence has two translations.

The splits differ on purpose. A twelfth of all (adjective, noun) and (verb, noun) combinations, drawn with the seed,
never occurs in training, and every validation and test sentence holds at least one of these. Every word of the
validation and test sentences, in both languages, occurs at least three times in training.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from ...errors import OdeTransformerError
from ...files import write_lines

LANGUAGES = ("de", "en")
MIN_COUNT = 3  # times that a word of valid or test must occur in train
HELD_OUT = 12  # one combination in this many is kept out of training
TRIES = 200  # sentences drawn per wanted sentence before giving up

T = TypeVar("T")
Tokens = list[str]
Combination = tuple[str, str]  # German lemmas: (adjective, noun) or (verb, noun)


def _rows(table: str) -> list[Tokens]:
    """Return the entries of a table, each split into its columns; "_" joins words."""
    return [[column.replace("_", " ") for column in entry.split()] for entry in table.split(";")]


# Article, singular, plural, English (after "/" its plural if irregular) and kind: P person, F food, T text, C clothes,
# X other things.
NOUNS = _rows("""der Lehrer Lehrer teacher P; der Arzt Ärzte doctor P; der Bäcker Bäcker baker P;
    der Freund Freunde friend P; der Onkel Onkel uncle P; der Bruder Brüder brother P; der Sohn Söhne son P;
    der Maler Maler painter P; der König Könige king P; der Mann Männer man/men P; die Frau Frauen woman/women P;
    die Tante Tanten aunt P; die Sängerin Sängerinnen singer P; die Schwester Schwestern sister P;
    die Tochter Töchter daughter P; die Köchin Köchinnen cook P; die Anwältin Anwältinnen lawyer P;
    das Kind Kinder child/children P; das Mädchen Mädchen girl P; der Apfel Äpfel apple F; die Birne Birnen pear F;
    der Kuchen Kuchen cake F; das Ei Eier egg F; die Suppe Suppen soup F; die Kartoffel Kartoffeln potato/potatoes F;
    der Brief Briefe letter T; das Buch Bücher book T; der Bericht Berichte report T; das Gedicht Gedichte poem T;
    die Nachricht Nachrichten message T; der Vertrag Verträge contract T; das Hemd Hemden shirt C;
    die Jacke Jacken jacket C; der Mantel Mäntel coat C; das Kleid Kleider dress/dresses C; der Schuh Schuhe shoe C;
    die Mütze Mützen cap C; der Schlüssel Schlüssel key X; die Tasche Taschen bag X; der Koffer Koffer suitcase X;
    der Stuhl Stühle chair X; das Bild Bilder picture X; der Spiegel Spiegel mirror X; die Tasse Tassen cup X;
    das Messer Messer knife/knives X; die Kiste Kisten box/boxes X; das Geschenk Geschenke gift X;
    die Lampe Lampen lamp X""")
# Stem that takes an ending, English, kinds of nouns.
ADJECTIVES = _rows("""jung young P; alt old PTCX; freundlich friendly P; müd tired P; krank sick P; klug clever P;
    reich rich P; berühmt famous PT; traurig sad PT; mutig brave P; neu new TCX; teur expensive FTCX;
    billig cheap FTCX; klein small PFTCX; groß large FTCX; schön beautiful PTCX; schwer heavy CX; rot red FCX;
    blau blue CX; grün green FCX; frisch fresh F; kalt cold F; lang long TC; kurz short TC; wichtig important PT;
    sauber clean CX; schmutzig dirty CX""")
# Infinitive ("|" ends a separable prefix), third person, participle, English (after "/" its past if irregular), kinds
# of the object, its case: A, D, or DA for a person in the dative and a thing in the accusative.
VERBS = _rows("""kaufen kauft gekauft buy/bought FTCX A; verkaufen verkauft verkauft sell/sold FTCX A;
    suchen sucht gesucht look_for PFTCX A; finden findet gefunden find/found PFTCX A;
    vergessen vergisst vergessen forget/forgot PTCX A; essen isst gegessen eat/ate F A;
    probieren probiert probiert taste F A; lesen liest gelesen read/read T A;
    schreiben schreibt geschrieben write/wrote T A; übersetzen übersetzt übersetzt translate T A;
    tragen trägt getragen wear/wore C A; bügeln bügelt gebügelt iron C A; benutzen benutzt benutzt use X A;
    zeichnen zeichnet gezeichnet draw/drew PFX A; stehlen stiehlt gestohlen steal/stole FTCX A;
    ein|packen packt gepackt pack FTCX A; weg|werfen wirft geworfen throw_away/threw_away FTCX A;
    an|ziehen zieht gezogen put_on/put_on C A; vor|lesen liest gelesen read_out/read_out T A;
    ab|holen holt geholt pick_up PTCX A; an|rufen ruft gerufen call P A; ein|laden lädt geladen invite P A;
    besuchen besucht besucht visit P A; treffen trifft getroffen meet/met P A; loben lobt gelobt praise P A;
    helfen hilft geholfen help P D; danken dankt gedankt thank P D; zu|hören hört gehört listen_to P D;
    zu|stimmen stimmt gestimmt agree_with P D; geben gibt gegeben give/gave FTCX DA; zeigen zeigt gezeigt show FTCX DA;
    schicken schickt geschickt send/sent TCX DA; an|bieten bietet geboten offer FCX DA;
    bringen bringt gebracht bring/brought FTCX DA""")
# Singular and plural of the finite verb, and what English puts before the verb, after its operator.
MODALS = {
    "werden": ("wird", "werden", "will", ""),
    "können": ("kann", "können", "can", ""),
    "sollen": ("soll", "sollen", "should", ""),
    "mögen": ("möchte", "möchten", "would", "like to"),
}
MODES = ("present", "present", "perfect", "perfect", "perfect", *MODALS)
# Times that suit the tense: the present, the perfect, and all others.
TIMES = {
    "present": _rows("jeden_Tag every_day; jeden_Montag every_Monday; immer_im_Sommer always_in_summer"),
    "perfect": _rows("""gestern yesterday; vorgestern the_day_before_yesterday; letzte_Woche last_week;
        letzten_Freitag last_Friday; im_letzten_Winter last_winter; vor_drei_Tagen three_days_ago"""),
    "": _rows("""morgen tomorrow; übermorgen the_day_after_tomorrow; nächste_Woche next_week;
        nächsten_Sonntag next_Sunday; im_nächsten_Herbst next_autumn; in_zwei_Stunden in_two_hours"""),
}
PLACES = _rows("""in_der_Küche in_the_kitchen; im_Garten in_the_garden; in_der_Schule at_school; im_Wald in_the_forest;
    am_Bahnhof at_the_station; auf_dem_Markt at_the_market; im_Büro in_the_office; am_Strand on_the_beach;
    vor_der_Kirche in_front_of_the_church; hinter_der_Brücke behind_the_bridge""")
CONJUNCTIONS = _rows("weil because; obwohl although; bevor before; wenn when")
COUNTS = _rows("zwei two; drei three; vier four; fünf five; sechs six; sieben seven; acht eight; neun nine; zehn ten")
# Stems of determiners, English in the singular and in the plural.
DETERMINERS = [["d", "the", "the"]] * 4 + _rows("ein a -; mein my my; unser our our; dies this these")
# Endings by case; the columns are masculine, feminine, neuter and plural.
ARTICLES = ("der", "die", "das")
DER = {"N": ("er", "ie", "as", "ie"), "A": ("en", "ie", "as", "ie"), "D": ("em", "er", "em", "en")}
STRONG = DER | {"N": ("er", "e", "es", "e"), "A": ("en", "e", "es", "e")}
WEAK = {"N": ("e", "e", "e", "en"), "A": ("en", "e", "e", "en"), "D": ("en",) * 4}


def determiner(stem: str, case: str, column: int) -> str:
    """Return a German determiner: ``determiner("ein", "A", 0)`` is ``"einen"``."""
    if not stem or (stem in ("ein", "mein", "unser") and f"{case}{column}" in ("N0", "N2", "A2")):
        return stem
    return stem + (DER if stem == "d" else STRONG)[case][column]


def adjective_ending(stem: str, case: str, column: int) -> str:
    """Return the ending of an adjective after a determiner: weak if the determiner has an ending, strong otherwise."""
    return (STRONG if determiner(stem, case, column) == stem else WEAK)[case][column]


class Phrase(NamedTuple):
    """A noun phrase: German by case, English, whether it is plural, and its noun in the singular."""

    german: dict[str, str]
    english: str
    plural: bool
    noun: str


@dataclass
class Clause:
    """A clause before its words are put in order: ``parts`` holds German and English by role."""

    subject: Phrase
    verb: Tokens
    mode: str
    negated: bool
    parts: dict[str, tuple[str, str]]

    def german(self, order: str, front: str = "") -> Tokens:
        """Return the German words, with the verb "second", "first" or "final", after the part with role ``front``."""
        prefix, _, stem = self.verb[0].rpartition("|")
        plural = self.subject.plural
        if self.mode == "present":
            finite, tail = stem if plural else self.verb[1], prefix
        elif self.mode == "perfect":
            finite, tail = ("hat", "haben")[plural], prefix + self.verb[2]
        else:
            finite, tail = MODALS[self.mode][plural], prefix + stem
        slots = {"subject": self.subject.german["N"]} | {role: german for role, (german, _) in self.parts.items()}
        first = slots.pop(front, "")
        if order == "final":
            middle = [*slots.values(), prefix + finite if self.mode == "present" else f"{tail} {finite}"]
        else:
            middle = [finite, *slots.values(), tail]
        return " ".join([first, *middle]).split()

    def english(self, question: bool = False) -> Tokens:
        """Return the English words, of a statement or of a question."""
        base, _, past = self.verb[3].partition("/")
        head, *rest = base.split()
        past = past or " ".join([head + ("d" if head[-1] == "e" else "ed"), *rest])
        support = question or self.negated
        if self.mode == "perfect":
            operator, verb = ("did", base) if support else ("", past)
        elif self.mode == "present":
            third = not self.subject.plural
            present = " ".join([head + "s" * third, *rest])
            operator, verb = ("does" if third else "do", base) if support else ("", present)
        else:
            operator, verb = MODALS[self.mode][2], f"{MODALS[self.mode][3]} {base}"
        if self.negated:
            operator = "cannot" if operator == "can" else f"{operator} not"
        order = [operator, self.subject.english] if question else [self.subject.english, operator]
        tail = [self.parts[role][1] for role in ("A", "D", "place", "time") if role in self.parts]
        return " ".join([*order, verb, *tail]).split()


class Sentence(NamedTuple):
    """A sentence pair, with tokens joined by spaces, and the combinations of German lemmas that it holds."""

    source: str
    target: str
    combinations: frozenset[Combination]


def all_combinations() -> list[Combination]:
    """Return every (adjective, noun) and (verb, noun) that the grammar can join, in the order of the lexicon."""
    pairs = [(stem, noun[1]) for stem, _, kinds in ADJECTIVES for noun in NOUNS if noun[4] in kinds]
    return pairs + [(verb[0].replace("|", ""), noun[1]) for verb in VERBS for noun in NOUNS if noun[4] in "P" + verb[4]]


class Grammar:
    """A generator of sentence pairs. It uses only ``Random.random()``, which is the same in every version of Python."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.combinations: set[Combination] = set()

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items, all equally likely; unlike ``Random.choice``, the same in every version of Python."""
        return items[int(self.random.random() * len(items))]

    def phrase(self, kinds: str, definite: bool = False, but: Sequence[str] = ()) -> Phrase:
        """Draw a noun phrase of one of these kinds, often with an adjective, whose noun is not in ``but``."""
        kind = self.pick(kinds)
        article, singular, plural, english, _ = self.pick([n for n in NOUNS if n[4] == kind and n[1] not in but])
        english, _, english_plural = english.partition("/")
        many = self.chance(0.35)
        column = 3 if many else ARTICLES.index(article)
        stem, *translations = self.pick([row for row in DETERMINERS if not definite or row[0] != "ein"])
        first, count = translations[many], ""
        if many and stem == "ein":
            stem, (count, first) = "", self.pick(COUNTS)
        adjective, translated = self.pick([row[:2] for row in ADJECTIVES if kind in row[2]])
        if self.chance(0.6):
            adjective = translated = ""
        else:
            self.combinations.add((adjective, singular))
        german = {}
        for case in "NAD":
            inflected = adjective and adjective + adjective_ending(stem, case, column)
            noun = plural + "n" * (case == "D" and plural[-1] not in "ns") if many else singular
            german[case] = " ".join(filter(None, [determiner(stem, case, column), count, inflected, noun]))
        head = (english_plural or english + "s") if many else english
        words = f"{first} {translated} {head}".split()
        if words[0] == "a" and words[1][0] in "aeiou":
            words[0] = "an"
        return Phrase(german, " ".join(words), many, singular)

    def clause(self, adverbials: Sequence[str] = ("time", "place"), negation: float = 0.2) -> Clause:
        """Draw a clause with a verb, its subject and objects, and at times with adverbials."""
        verb, mode, negated = self.pick(VERBS), self.pick(MODES), self.chance(negation)
        subject = self.phrase("P", negated)
        phrases, parts = [subject], {}
        if "time" in adverbials and self.chance(0.5):
            parts["time"] = tuple(self.pick(TIMES.get(mode, TIMES[""])))
        for case in verb[5]:
            phrases.append(self.phrase("P" if verb[5] == "DA" and case == "D" else verb[4], negated, [subject.noun]))
            to = "to " * (verb[5] == "DA" and case == "D")
            parts[case] = phrases[-1].german[case], to + phrases[-1].english
        if negated:
            parts["not"] = "nicht", ""
        if "place" in adverbials and self.chance(0.3):
            parts["place"] = tuple(self.pick(PLACES))
        self.combinations |= {(verb[0].replace("|", ""), phrase.noun) for phrase in phrases}
        return Clause(subject, verb, mode, negated, parts)

    def statement(self, clause: Clause) -> tuple[Tokens, Tokens]:
        """Return the words of a main clause; English keeps its order whatever comes first in German."""
        # A person as object would be taken for the subject.
        openers = [role for role in clause.parts if role == "time" or (role == "A" and clause.verb[4].find("P") < 0)]
        return clause.german("second", self.pick(["subject", *openers])), clause.english()

    def sentence(self) -> Sentence:
        """Draw a sentence pair: a main clause, a question, or two clauses with a conjunction in either order."""
        self.combinations = set()
        kind = self.pick(("simple",) * 4 + ("question",) + ("conjunction",) * 3)
        if kind == "question":
            asked = self.pick((["", ""], ["wann", "when"], ["warum", "why"]))
            clause = self.clause(("place",), negation=0)
            german, english = [asked[0], *clause.german("first")], [asked[1], *clause.english(question=True)]
        elif kind == "simple":
            german, english = self.statement(self.clause())
        else:
            conjunction, translation = self.pick(CONJUNCTIONS)
            main, other = self.clause(("time",)), self.clause(())
            german, english = [conjunction, *other.german("final")], [translation, *other.english()]
            if self.chance(0.5):
                german, english = [*german, ",", *main.german("first")], [*english, ",", *main.english()]
            else:
                first, second = self.statement(main)
                german, english = [*first, ",", *german], [*second, *english]
        texts = [" ".join([*filter(None, tokens), "?" if kind == "question" else "."]) for tokens in (german, english)]
        return Sentence(*(text[0].upper() + text[1:] for text in texts), frozenset(self.combinations))


def words(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each word of a sentence pair."""
    for language, text in zip(LANGUAGES, sentence[:2], strict=True):
        yield from ((language, word) for word in text.split())


def generate_sentences(
    seed: int = 1, train: int = 9000, valid: int = 500, test: int = 500
) -> dict[str, list[Sentence]]:
    """Draw the splits, without duplicates; the same arguments give the same sentences in every version of Python.

    Args:
        seed: 0 or more.
        train, valid, test: the numbers of sentences, 1 or more.

    Raises:
        OdeTransformerError: the grammar cannot give so many sentences for valid and test out of words that occur
            ``MIN_COUNT`` times in training.
    """
    random = Random(seed)
    grammar = Grammar(random)
    held_out = {pair for pair in all_combinations() if random.random() * HELD_OUT < 1}
    translations: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    splits: dict[str, list[Sentence]] = {}
    for name, size in (("train", train), ("valid", valid), ("test", test)):
        split = splits[name] = []
        for _ in range(TRIES * size + 10_000):
            sentence = grammar.sentence()
            novel = not sentence.combinations.isdisjoint(held_out)
            fits = not novel if name == "train" else novel and known.issuperset(words(sentence))
            if sentence.source in translations:
                if translations[sentence.source] != sentence.target:
                    raise AssertionError(f"{sentence.source!r} has two translations")
            elif fits:
                translations[sentence.source] = sentence.target
                split.append(sentence)
            if len(split) == size:
                break
        else:
            raise OdeTransformerError(
                f"--{name} {size}: must be at most {len(split)} with --train {train}: the grammar gives no more "
                f"sentences whose words occur {MIN_COUNT} times in training"
            )
        if name == "train":
            counts = Counter(word for sentence in split for word in words(sentence))
            known = {word for word, count in counts.items() if count >= MIN_COUNT}
    return splits


def write(directory: Path, seed: int = 1, train: int = 9000, valid: int = 500, test: int = 500) -> list[Path]:
    """Write ``train.de``, ``train.en``, ``valid.de`` ... ``test.en``, one sentence per line, and return their paths.

    Each file is written whole or not at all. A second call with the same arguments leaves the same bytes.

    Args:
        directory: the folder for the files, which must be new or empty.
        seed: random seed, 0 or more.
        train, valid, test: number of sentence pairs in this split.

    Raises:
        OdeTransformerError: as in :func:`generate_sentences`; nothing is written.
        OSError: the folder cannot be made or written.
    """
    splits, paths = generate_sentences(seed, train, valid, test), []
    for name, sentences in splits.items():
        for side, language in enumerate(LANGUAGES):
            paths.append(directory / f"{name}.{language}")
            write_lines(paths[-1], (sentence[side] for sentence in sentences))
    return paths
