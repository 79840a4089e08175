"""A small German-English corpus made by a grammar, for a quickstart that downloads nothing.

One synchronous grammar writes every German sentence together with its only English translation. German articles and
adjectives agree in gender, case and number; verbs stand second, first or last, and separable prefixes, participles and
infinitives where German puts them, so that neither copying nor word-by-word translation is enough. The text is cased as
in print and tokenized.

A twelfth of all (adjective, noun) and (verb, noun) combinations, drawn with the seed, never occurs in training, and
every validation and test sentence holds at least one of these. All of its words occur in training three times or more.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from ...files import write_lines

SIZES = {"train": 9000, "valid": 500, "test": 500}
MIN_COUNT = 3  # times that a word of valid or test must occur in train
HELD_OUT = 12  # one combination in this many is kept out of training

T = TypeVar("T")
Combination = tuple[str, str]  # German lemmas: (adjective, noun) or (verb, noun)


def _rows(table: str) -> list[list[str]]:
    """Return the entries of a table, each split into its columns; "_" joins words."""
    return [[column.replace("_", " ") for column in entry.split()] for entry in table.split(";")]


# Article, singular, plural, English (after "/" its plural if irregular) and kind: P person, F food, T text, C clothes,
# X other things.
NOUNS = _rows("""der Lehrer Lehrer teacher P; der Arzt Ärzte doctor P; der Bäcker Bäcker baker P;
    der Freund Freunde friend P; der Bruder Brüder brother P; der König Könige king P; der Mann Männer man/men P;
    die Frau Frauen woman/women P; die Tante Tanten aunt P; die Sängerin Sängerinnen singer P;
    die Schwester Schwestern sister P; die Tochter Töchter daughter P; das Kind Kinder child/children P;
    das Mädchen Mädchen girl P; der Apfel Äpfel apple F; der Kuchen Kuchen cake F; die Birne Birnen pear F;
    die Suppe Suppen soup F; das Ei Eier egg F; der Brief Briefe letter T; der Bericht Berichte report T;
    das Buch Bücher book T; das Gedicht Gedichte poem T; die Nachricht Nachrichten message T; das Hemd Hemden shirt C;
    der Mantel Mäntel coat C; der Schuh Schuhe shoe C; die Jacke Jacken jacket C; das Kleid Kleider dress/dresses C;
    der Schlüssel Schlüssel key X; der Stuhl Stühle chair X; die Tasche Taschen bag X; die Lampe Lampen lamp X;
    das Bild Bilder picture X; das Messer Messer knife/knives X; die Kiste Kisten box/boxes X""")
# Stem that takes an ending, English, kinds of nouns.
ADJECTIVES = _rows("""jung young P; alt old PTCX; freundlich friendly P; müd tired P; krank sick P; klug clever P;
    berühmt famous PT; traurig sad PT; neu new TCX; teur expensive FTCX; billig cheap FTCX; klein small PFTCX;
    groß large FTCX; schön beautiful PTCX; schwer heavy CX; rot red FCX; blau blue CX; grün green FCX; frisch fresh F;
    kalt cold F; lang long TC; kurz short TC; schmutzig dirty CX""")
# Infinitive ("|" ends a separable prefix), third person, participle, English, its past, kinds of the object, its case:
# A, D, or DA for a person in the dative and a thing in the accusative.
VERBS = _rows("""kaufen kauft gekauft buy bought FTCX A; verkaufen verkauft verkauft sell sold FTCX A;
    suchen sucht gesucht look_for looked_for PFTCX A; finden findet gefunden find found PFTCX A;
    vergessen vergisst vergessen forget forgot PTCX A; essen isst gegessen eat ate F A;
    lesen liest gelesen read read T A; schreiben schreibt geschrieben write wrote T A;
    tragen trägt getragen wear wore C A; zeichnen zeichnet gezeichnet draw drew PFX A;
    stehlen stiehlt gestohlen steal stole FTCX A; ein|packen packt gepackt pack packed FTCX A;
    weg|werfen wirft geworfen throw_away threw_away FTCX A; an|ziehen zieht gezogen put_on put_on C A;
    ab|holen holt geholt pick_up picked_up PTCX A; an|rufen ruft gerufen call called P A;
    ein|laden lädt geladen invite invited P A; treffen trifft getroffen meet met P A;
    loben lobt gelobt praise praised P A; helfen hilft geholfen help helped P D; danken dankt gedankt thank thanked P D;
    zu|hören hört gehört listen_to listened_to P D; geben gibt gegeben give gave FTCX DA;
    zeigen zeigt gezeigt show showed FTCX DA; schicken schickt geschickt send sent TCX DA;
    an|bieten bietet geboten offer offered FCX DA; bringen bringt gebracht bring brought FTCX DA""")
# Singular and plural of the finite verb, and what English puts before the subject of a question and before the verb.
MODALS = {
    "werden": ("wird", "werden", "will", ""),
    "können": ("kann", "können", "can", ""),
    "sollen": ("soll", "sollen", "should", ""),
    "mögen": ("möchte", "möchten", "would", "like to"),
}
TENSES = ("present", "present", "perfect", "perfect", "perfect", *MODALS)
TIMES = {
    "present": _rows("jeden_Tag every_day; jeden_Montag every_Monday; immer_im_Sommer always_in_summer"),
    "perfect": _rows(
        "gestern yesterday; letzte_Woche last_week; letzten_Freitag last_Friday; vor_drei_Tagen three_days_ago"
    ),
    "future": _rows(
        "morgen tomorrow; nächste_Woche next_week; nächsten_Sonntag next_Sunday; in_zwei_Stunden in_two_hours"
    ),
}
PLACES = _rows("""in_der_Küche in_the_kitchen; im_Garten in_the_garden; in_der_Schule at_school; im_Wald in_the_forest;
    am_Bahnhof at_the_station; auf_dem_Markt at_the_market; hinter_der_Brücke behind_the_bridge""")
CONJUNCTIONS = _rows("weil because; obwohl although; bevor before; wenn when")
QUESTIONS = (("", ""), ("wann", "when"), ("warum", "why"))
# Stem, English in the singular and in the plural.
DETERMINERS = [["d", "the", "the"]] * 4 + _rows("ein a two; mein my my; unser our our; dies this these")
# Endings by case; the columns are masculine, feminine, neuter and plural.
ARTICLES = ("der", "die", "das")
STRONG = {"N": ("er", "e", "es", "e"), "A": ("en", "e", "es", "e"), "D": ("em", "er", "em", "en")}
DEFINITE = {"N": ("er", "ie", "as", "ie"), "A": ("en", "ie", "as", "ie"), "D": STRONG["D"]}
WEAK = {"N": ("e", "e", "e", "en"), "A": ("en", "e", "e", "en"), "D": ("en",) * 4}


class Phrase(NamedTuple):
    """A noun phrase: German by case, English, whether it is plural, and its noun in the singular."""

    german: dict[str, str]
    english: str
    plural: bool
    noun: str


class Sentence(NamedTuple):
    """A sentence pair, with tokens joined by spaces, and the combinations of German lemmas that it holds."""

    source: str
    target: str
    combinations: frozenset[Combination]


class Grammar:
    """A generator of sentence pairs. It uses only ``Random.random()``, which is the same in every version of Python."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.combinations: set[Combination] = set()

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of the items, all equally likely."""
        return items[int(self.random.random() * len(items))]

    def phrase(self, kinds: str, but: str = "") -> Phrase:
        """Draw a noun phrase of one of these kinds, often with an adjective, whose noun is not ``but``."""
        kind = self.pick(kinds)
        article, singular, plural, english, _ = self.pick([n for n in NOUNS if n[4] == kind and n[1] != but])
        english, _, english_plural = english.partition("/")
        many = self.chance(0.35)
        column = 3 if many else ARTICLES.index(article)
        stem, *translations = self.pick(DETERMINERS)
        adjective, translated, _ = self.pick([row for row in ADJECTIVES if kind in row[2]])
        if self.chance(0.6):
            adjective = translated = ""
        else:
            self.combinations.add((adjective, singular))
        german = {}
        for case in "NAD":
            if many and stem == "ein":
                determiner, endings = "zwei", STRONG
            elif stem in ("ein", "mein", "unser") and f"{case}{column}" in ("N0", "N2", "A2"):
                determiner, endings = stem, STRONG
            else:
                determiner, endings = stem + (DEFINITE if stem == "d" else STRONG)[case][column], WEAK
            noun = plural + "n" * (case == "D" and plural[-1] not in "ns") if many else singular
            german[case] = " ".join([determiner, *([adjective + endings[case][column]] if adjective else []), noun])
        head = (english_plural or f"{english}s") if many else english
        words = f"{translations[many]} {translated} {head}".split()
        if words[0] == "a" and words[1][0] in "aeiou":
            words[0] = "an"
        return Phrase(german, " ".join(words), many, singular)

    def clause(self, order: str, adverbials: bool = True) -> tuple[str, str]:
        """Draw a clause, German and English.

        Args:
            order: where the German verb stands: ``second``; first in a ``question``, and, ``inverted``, after another
                clause; or ``final``.
            adverbials: add a time and a place, at times.
        """
        infinitive, third, participle, base, past, kinds, cases = self.pick(VERBS)
        tense, subject = self.pick(TENSES), self.phrase("P")
        phrases, german, english = [subject], {"subject": subject.german["N"]}, {}
        if adverbials and self.chance(0.5):
            german["time"], english["time"] = self.pick(TIMES.get(tense, TIMES["future"]))
        for case in cases:
            receives = cases == "DA" and case == "D"
            phrases.append(self.phrase("P" if receives else kinds, subject.noun))
            german[case], english[case] = phrases[-1].german[case], "to " * receives + phrases[-1].english
        if adverbials and self.chance(0.3):
            german["place"], english["place"] = self.pick(PLACES)
        self.combinations |= {(infinitive, phrase.noun) for phrase in phrases}

        prefix, _, stem = infinitive.rpartition("|")
        if tense == "present":
            finite, rest = stem if subject.plural else third, prefix
            operator, verb = "do" if subject.plural else "does", base
            statement = base if subject.plural else " ".join([f"{base.split()[0]}s", *base.split()[1:]])
        elif tense == "perfect":
            finite, rest = "haben" if subject.plural else "hat", prefix + participle
            operator, verb, statement = "did", base, past
        else:
            singular, plural, operator, more = MODALS[tense]
            finite, rest = plural if subject.plural else singular, prefix + stem
            verb, statement = f"{more} {base}", f"{operator} {more} {base}"
        if order == "final":
            words = [*german.values(), prefix + finite if tense == "present" else f"{rest} {finite}"]
        else:
            # A person as object would be taken for the subject.
            fronts = [role for role in german if role in ("subject", "time") or (role == "A" and "P" not in kinds)]
            first = german.pop(self.pick(fronts)) if order == "second" else ""
            words = [first, finite, *german.values(), rest]
        said = [operator, subject.english, verb] if order == "question" else [subject.english, statement]
        said += [english[role] for role in ("A", "D", "place", "time") if role in english]
        return " ".join(" ".join(words).split()), " ".join(" ".join(said).split())

    def sentence(self) -> Sentence:
        """Draw a sentence pair: a main clause, a question, or two clauses with a conjunction in either order."""
        self.combinations = set()
        kind = self.pick(("simple",) * 4 + ("question",) + ("conjunction",) * 3)
        if kind == "simple":
            pair = [f"{side} ." for side in self.clause("second")]
        elif kind == "question":
            asked = self.pick(QUESTIONS)
            pair = [f"{word} {side} ?".strip() for word, side in zip(asked, self.clause("question"), strict=True)]
        else:
            (german, english), (other, translated) = self.pick(CONJUNCTIONS), self.clause("final", adverbials=False)
            if self.chance(0.5):
                main, its = self.clause("inverted")
                pair = [f"{german} {other} , {main} .", f"{english} {translated} , {its} ."]
            else:
                main, its = self.clause("second")
                pair = [f"{main} , {german} {other} .", f"{its} {english} {translated} ."]
        return Sentence(*(text[0].upper() + text[1:] for text in pair), frozenset(self.combinations))


def generate_sentences(seed: int = 1) -> dict[str, list[Sentence]]:
    """Draw the splits, without duplicates; the same seed gives the same sentences in every version of Python."""
    random = Random(seed)
    combinations = [(stem, noun[1]) for stem, _, kinds in ADJECTIVES for noun in NOUNS if noun[4] in kinds]
    combinations += [(verb[0], noun[1]) for verb in VERBS for noun in NOUNS if noun[4] in f"P{verb[5]}"]
    held_out = {pair for pair in combinations if random.random() * HELD_OUT < 1}
    grammar, drawn, known = Grammar(random), set(), set()
    splits: dict[str, list[Sentence]] = {}
    for name, size in SIZES.items():
        split = splits[name] = []
        while len(split) < size:
            sentence = grammar.sentence()
            words = {*sentence.source.split(), *sentence.target.split()}
            novel = not sentence.combinations.isdisjoint(held_out)
            if sentence.source not in drawn and (not novel if name == "train" else novel and words <= known):
                drawn.add(sentence.source)
                split.append(sentence)
        if name == "train":
            counts = Counter(word for sentence in split for side in sentence[:2] for word in side.split())
            known = {word for word, count in counts.items() if count >= MIN_COUNT}
    return splits


def write(directory: Path, seed: int = 1) -> list[Path]:
    """Write ``train.de``, ``train.en``, ``valid.de`` ... ``test.en``, one sentence per line, and return their paths.

    Args:
        directory: the folder for the files, which must be new or empty.
        seed: random seed, 0 or more.
    """
    paths = []
    for name, sentences in generate_sentences(seed).items():
        for side, language in enumerate(("de", "en")):
            paths.append(directory / f"{name}.{language}")
            write_lines(paths[-1], (sentence[side] for sentence in sentences))
    return paths
