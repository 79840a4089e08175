"""A small German-English corpus made by a grammar, for a quickstart that downloads nothing.

One synchronous grammar writes every German sentence together with its English translation. German articles
and adjectives agree in gender, case and number; verbs stand second or last; separable prefixes, participles,
infinitives and negations go where German puts them; numbers, dates and clock times are written in words.
English has its own word order, so that neither copying nor word-by-word translation is enough.

The text is cased as in print (German nouns and the first word have a capital letter) and tokenized: one
space between tokens, with punctuation and the English ``'s`` as separate tokens. No source sentence has two
translations.

The splits differ on purpose. A twelfth of all (adjective, noun) and (verb, noun) combinations, drawn with the
seed, never occurs in training, and every validation and test sentence holds at least one of these. A verb and
a noun are combined when the noun heads the subject or an object of the verb. Every word of the validation and
test sentences, in both languages, occurs at least three times in training.
"""

import argparse
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from ...errors import OdeTransformerError
from ...files import write_lines

LANGUAGES = ("de", "en")
MAX_SENTENCES = 100_000  # per split; more would mostly vary the numbers
MIN_COUNT = 3  # times that a word of valid or test must occur in train
HELD_OUT = 12  # one combination in this many is kept out of training
TRIES = 200  # sentences drawn per wanted sentence before giving up

T = TypeVar("T")
Tokens = list[str]
Pair = tuple[Tokens, Tokens]  # German and English
Combination = tuple[str, str]  # German lemmas: (adjective, noun) or (verb, noun)

# --- Lexicon ------------------------------------------------------------------------------------------------
# Entries end with ";" and "_" joins words. Kinds: P person, F food, T text, G gadget, V vehicle, C clothes,
# X other things. Nouns: article, singular, plural, English and after "/" its plural if irregular; "der*"
# marks those that take the form of the plural in all cases of the singular but the nominative.
NOUNS = {
    "P": """der Lehrer Lehrer teacher; der Arzt Ärzte doctor; der Bäcker Bäcker baker; der Schüler Schüler pupil;
    der* Student Studenten student; der* Nachbar Nachbarn neighbour; der Freund Freunde friend; der* Junge Jungen boy;
    der Dieb Diebe thief/thieves; der Onkel Onkel uncle; der Bruder Brüder brother; der Sohn Söhne son;
    der Gärtner Gärtner gardener; der Maler Maler painter; der Richter Richter judge; der Fahrer Fahrer driver;
    der König Könige king; der Gast Gäste guest; der Mann Männer man/men; die Frau Frauen woman/women;
    die Tante Tanten aunt; die Sängerin Sängerinnen singer; die Schwester Schwestern sister;
    die Tochter Töchter daughter; die Köchin Köchinnen cook; die Königin Königinnen queen;
    die Verkäuferin Verkäuferinnen shop_assistant; die Krankenschwester Krankenschwestern nurse;
    die Bürgermeisterin Bürgermeisterinnen mayor; die Anwältin Anwältinnen lawyer;
    die Forscherin Forscherinnen researcher; das Kind Kinder child/children; die Tänzerin Tänzerinnen dancer;
    das Mädchen Mädchen girl; das Mitglied Mitglieder member""",
    "F": """der Apfel Äpfel apple; die Birne Birnen pear; der Kuchen Kuchen cake; das Ei Eier egg;
    die Tomate Tomaten tomato; die Suppe Suppen soup; die Kartoffel Kartoffeln potato; die Gurke Gurken cucumber;
    die Zwiebel Zwiebeln onion; der Pfirsich Pfirsiche peach; die Wurst Würste sausage; der Pilz Pilze mushroom;
    die Erdbeere Erdbeeren strawberry""",
    "T": """der Brief Briefe letter; das Buch Bücher book; der Bericht Berichte report; der Roman Romane novel;
    das Gedicht Gedichte poem; der Vertrag Verträge contract; der Aufsatz Aufsätze essay;
    die Postkarte Postkarten postcard; die Einkaufsliste Einkaufslisten shopping_list; das Rezept Rezepte recipe;
    das Tagebuch Tagebücher diary; die Nachricht Nachrichten message""",
    "G": """die Waschmaschine Waschmaschinen washing_machine; der Kühlschrank Kühlschränke fridge;
    der Fernseher Fernseher television; der Rechner Rechner computer; der Drucker Drucker printer;
    die Lampe Lampen lamp; die Heizung Heizungen heater; die Kaffeemaschine Kaffeemaschinen coffee_machine;
    die Taschenlampe Taschenlampen torch; das Gerät Geräte device""",
    "V": """das Auto Autos car; das Fahrrad Fahrräder bicycle; der Lastwagen Lastwagen lorry; das Boot Boote boat;
    das Motorrad Motorräder motorbike; der Bus Busse bus; das Flugzeug Flugzeuge plane;
    die Kutsche Kutschen carriage""",
    "C": """das Hemd Hemden shirt; die Jacke Jacken jacket; der Mantel Mäntel coat; der Rock Röcke skirt;
    das Kleid Kleider dress; der Schuh Schuhe shoe; die Mütze Mützen cap; der Handschuh Handschuhe glove;
    der Gürtel Gürtel belt; der Schal Schals scarf/scarves; die Krawatte Krawatten tie; der Anzug Anzüge suit;
    die Schürze Schürzen apron""",
    "X": """der Schlüssel Schlüssel key; die Tasche Taschen bag; der Koffer Koffer suitcase; der Stuhl Stühle chair;
    der Regenschirm Regenschirme umbrella; der Tisch Tische table; der Teppich Teppiche carpet;
    das Bild Bilder picture; der Spiegel Spiegel mirror; die Puppe Puppen doll; der Teller Teller plate;
    die Tasse Tassen cup; das Messer Messer knife/knives; der Topf Töpfe pot; die Flasche Flaschen bottle;
    der Korb Körbe basket; die Kiste Kisten box; die Leiter Leitern ladder; die Decke Decken blanket;
    der Bleistift Bleistifte pencil; das Klavier Klaviere piano/pianos; die Geige Geigen violin;
    das Kissen Kissen cushion; die Kerze Kerzen candle; das Zelt Zelte tent; die Fahrkarte Fahrkarten ticket;
    der Reisepass Reisepässe passport; das Geschenk Geschenke gift""",
}
# Adjectives: stem that takes an ending, English, kinds of nouns. Comparatives likewise.
ADJECTIVES = """jung young P; alt old PTGVCX; freundlich friendly P; müd tired P; krank sick P; klug clever P;
    faul lazy P; fleißig hard-working P; reich rich P; berühmt famous PT; höflich polite P; traurig sad PT;
    nervös nervous P; fröhlich cheerful P; mutig brave P; schüchtern shy P; stolz proud P; hungrig hungry P;
    geduldig patient P; neugierig curious P; neu new TGVCX; teur expensive FTGVCX; billig cheap FTGVCX;
    klein small FTGVCX; groß large FTGVCX; schön beautiful PTGVCX; schwer heavy GVCX; leicht light GVCX; rot red FGVCX;
    blau blue GVCX; grün green FGVCX; gelb yellow FGVCX; schwarz black GVCX; weiß white GVCX; bunt colourful TCX;
    frisch fresh F; süß sweet F; kalt cold F; lang long TC; kurz short TC; interessant interesting PT;
    langweilig boring PT; wichtig important PT; langsam slow PGV; schnell fast GV; kaputt broken GVX; laut loud PGV;
    nass wet VCX; sauber clean GVCX; schmutzig dirty GVCX; weich soft FC; merkwürdig strange PTGX;
    hässlich ugly TGVCX"""
COMPARATIVES = """älter older PTGVCX; jünger younger P; klüger cleverer P; reicher richer P; mutiger braver P;
    höflicher more_polite P; schwerer heavier GVCX; leichter lighter GVCX; teurer more_expensive FTGVCX;
    billiger cheaper FTGVCX; kleiner smaller FTGVCX; größer larger FTGVCX; länger longer TC;
    schöner more_beautiful TGVCX; frischer fresher F; süßer sweeter F; wichtiger more_important T; schneller faster GV;
    lauter louder GV"""
# Verbs by frame: infinitive, third person, participle, English and after "/" its past if irregular, kinds of
# the object. "*" takes "sein" in the perfect, "|" ends a separable prefix, "+" starts an English particle.
VERBS = {
    "accusative": """kaufen kauft gekauft buy/bought FTGVCX; verkaufen verkauft verkauft sell/sold FTGVCX;
    suchen sucht gesucht look_for PFTGVCX; finden findet gefunden find/found PFTGVCX;
    verlieren verliert verloren lose/lost TCX; vergessen vergisst vergessen forget/forgot PTGCX;
    bezahlen bezahlt bezahlt pay_for/paid_for FTGVCX; bestellen bestellt bestellt order FTGVCX;
    reparieren repariert repariert repair GV; putzen putzt geputzt clean GVX; waschen wäscht gewaschen wash VC;
    essen isst gegessen eat/ate F; probieren probiert probiert taste F; schneiden schneidet geschnitten cut/cut F;
    lesen liest gelesen read/read T; schreiben schreibt geschrieben write/wrote T;
    übersetzen übersetzt übersetzt translate T; drucken druckt gedruckt print T;
    verbessern verbessert verbessert correct T; tragen trägt getragen wear/wore C; nähen näht genäht sew C;
    bügeln bügelt gebügelt iron C; mieten mietet gemietet rent GV; benutzen benutzt benutzt use GVX;
    zeichnen zeichnet gezeichnet draw/drew PFGVX; fotografieren fotografiert fotografiert photograph PFGVX;
    verstecken versteckt versteckt hide/hid FTCX; beschreiben beschreibt beschrieben describe PTGVX;
    wählen wählt gewählt choose/chose PFTGVCX; stehlen stiehlt gestohlen steal/stole FTGVCX;
    prüfen prüft geprüft check TGV; ab|holen holt geholt pick+up PTGVCX; ein|packen packt gepackt pack FTCX;
    aus|packen packt gepackt unpack FTGCX; mit|bringen bringt gebracht bring+along/brought PFTX;
    weg|werfen wirft geworfen throw+away/threw FTGCX; aus|leihen leiht geliehen borrow TGVX;
    an|ziehen zieht gezogen put+on/put C; aus|ziehen zieht gezogen take+off/took C;
    an|probieren probiert probiert try+on C; ein|schalten schaltet geschaltet switch+on G;
    aus|schalten schaltet geschaltet switch+off G; auf|wärmen wärmt gewärmt heat+up F;
    vor|lesen liest gelesen read+out/read T; ab|schreiben schreibt geschrieben copy T;
    auf|hängen hängt gehängt hang+up/hung C; zurück|geben gibt gegeben give+back/gave TGVCX;
    weg|räumen räumt geräumt put+away/put CX; her|stellen stellt gestellt produce GVCX; an|rufen ruft gerufen call P;
    ein|laden lädt geladen invite P; besuchen besucht besucht visit P; treffen trifft getroffen meet/met P;
    begrüßen begrüßt begrüßt greet P; loben lobt gelobt praise P; warnen warnt gewarnt warn P;
    aus|lachen lacht gelacht laugh_at P; retten rettet gerettet rescue P; trösten tröstet getröstet comfort P;
    ein|stellen stellt gestellt hire P; kennen|lernen lernt gelernt get_to_know/got_to_know P""",
    "dative": """helfen hilft geholfen help P; danken dankt gedankt thank P; antworten antwortet geantwortet answer P;
    vertrauen vertraut vertraut trust P; zu|hören hört gehört listen_to P; zu|winken winkt gewinkt wave_at P;
    gratulieren gratuliert gratuliert congratulate P; zu|stimmen stimmt gestimmt agree_with P""",
    "both": """geben gibt gegeben give/gave FTCX; zeigen zeigt gezeigt show FTGVCX;
    schicken schickt geschickt send/sent TCX; leihen leiht geliehen lend/lent TGVCX;
    bringen bringt gebracht bring/brought FTGCX; an|bieten bietet geboten offer FGVCX;
    versprechen verspricht versprochen promise GVX; erklären erklärt erklärt explain TG""",
    "auf A": "warten wartet gewartet wait_for PTV; auf|passen passt gepasst look_after PVX",
    "an A": "denken denkt gedacht think_of/thought_of PFX",
    "über A": "sprechen spricht gesprochen talk_about PTV; lachen lacht gelacht laugh_about PTC",
    "mit D": "streiten streitet gestritten argue_with P; tanzen tanzt getanzt dance_with P",
    "von D": "träumen träumt geträumt dream_of/dreamt_of P",
    "nach D": "fragen fragt gefragt ask_about P",
    "to": """*gehen geht gegangen go/went -; *fahren fährt gefahren drive/drove -; *laufen läuft gelaufen run/ran -;
    *reisen reist gereist travel/travelled -; *zurück|kehren kehrt gekehrt return -""",
    "at": """arbeiten arbeitet gearbeitet work -; schlafen schläft geschlafen sleep/slept -;
    weinen weint geweint cry -; singen singt gesungen sing/sang -; spielen spielt gespielt play -;
    lernen lernt gelernt study -; ein|kaufen kauft gekauft shop/shopped -;
    *ein|schlafen schläft geschlafen fall_asleep/fell_asleep -; *auf|wachen wacht gewacht wake_up/woke_up -;
    *an|kommen kommt gekommen arrive -; *auf|treten tritt getreten perform -""",
    "that": """glauben glaubt geglaubt believe -; wissen weiß gewusst know/knew -; sagen sagt gesagt say/said -;
    behaupten behauptet behauptet claim -; vermuten vermutet vermutet suspect -""",
    "zu": """versuchen versucht versucht try -; planen plant geplant plan/planned -; hoffen hofft gehofft hope -;
    beschließen beschließt beschlossen decide -""",
}
OBJECTS = {
    "accusative": ("accusative",),
    "dative": ("dative",),
    "both": ("dative", "accusative"),
    "prepositional": ("prepositional",),
}
PRICED = ("kaufen", "verkaufen", "mieten", "bestellen")
PRICES = ["15", "20", "25", "30", "35", "40", "45", "50", "60", "70", "80", "90", "150", "250", "350", "450"]
# Places: article, noun, English, the usual preposition in German and in English.
PLACES = """die Küche kitchen in in; der Garten garden in in; die Schule school in at; der Wald forest in in;
    der Bahnhof station an at; der Flughafen airport an at; der Markt market auf at; die Kirche church in in;
    das Krankenhaus hospital in in; das Büro office in in; die Werkstatt workshop in in; das Rathaus town_hall in in;
    die Bäckerei bakery in at; die Apotheke pharmacy in at; der Strand beach an on; die Bushaltestelle bus_stop an at;
    die Brücke bridge auf on; der See lake an at; das Dorf village in in; der Keller cellar in in;
    die Fabrik factory in in; das Schloss castle in in; der Bauernhof farm auf on; das Wohnzimmer living_room in in;
    das Schwimmbad swimming_pool in at"""
PREPOSITIONS = "vor in_front_of; hinter behind; neben next_to"
CITIES = """Köln Cologne; München Munich; Wien Vienna; Genf Geneva; Rom Rome; Prag Prague; Warschau Warsaw;
    Nürnberg Nuremberg; Mailand Milan; Venedig Venice; Lissabon Lisbon; Athen Athens; Hamburg Hamburg"""
NAMES = ["Anna", "Peter", "Maria", "Thomas", "Laura", "Martin", "Julia", "Paul", "Sophie", "Lukas", "Clara", "Felix"]
# Persons: ich, du, third singular, wir, third plural; pronouns in three cases, English as subject and object.
PRONOUNS = "ich mich mir I me; du dich dir you you; er ihn ihm he him; wir uns uns we us"
HABEN = ["habe", "hast", "hat", "haben", "haben"]
SEIN = ["bin", "bist", "ist", "sind", "sind"]
AM = ["am", "are", "is", "are", "are"]
# Modal verbs: English is an operator that goes before "not", or takes "do" for that ("have", "want").
MODALS = {
    "werden": ("werde wirst wird werden werden", "will", ""),
    "können": ("kann kannst kann können können", "can", ""),
    "sollen": ("soll sollst soll sollen sollen", "should", ""),
    "mögen": ("möchte möchtest möchte möchten möchten", "would", "like to"),
    "müssen": ("muss musst muss müssen müssen", "have", "to"),
    "wollen": ("will willst will wollen wollen", "want", "to"),
    "dürfen": ("darf darfst darf dürfen dürfen", "be", "allowed to"),
}
MODES = ("present", "present", "perfect", "perfect", "perfect", "werden", *MODALS)
# Conjunctions: English, the modes of the main and of the subordinate clause, "" for any.
CONJUNCTIONS = {
    "weil": ("because", "", ""),
    "obwohl": ("although", "", ""),
    "während": ("while", "perfect", "perfect"),
    "bevor": ("before", "perfect", "perfect"),
    "falls": ("if", "werden", "present"),
    "sobald": ("as soon as", "werden", "present"),
    "immer wenn": ("whenever", "present", "present"),
    "damit": ("so that", "", "können"),
}
# Times that suit the tense: days, which may have a clock time with them, and then longer spans. German counts
# the half hour towards the hour to come.
DATE = "am {ordinal} {month} = on the {ordinal} of {month}"
TIMES = {
    "present": ("jeden Tag = every day; jeden {weekday} = every {weekday}", "im {month} = in {month}"),
    "perfect": (
        "gestern = yesterday; vorgestern = the day before yesterday; letzten {weekday} = last {weekday};" + DATE,
        """letzte Woche = last week; im letzten {season} = last {season}; im Jahr {year} = in {year};
        vor {count} {unit} = {count} {unit} ago""",
    ),
    "": (
        "morgen = tomorrow; übermorgen = the day after tomorrow; nächsten {weekday} = next {weekday};" + DATE,
        """nächste Woche = next week; im nächsten {season} = next {season};
        in {count} {unit} = in {count} {unit}""",
    ),
}
CLOCK = """um {next} Uhr = at {next} o'clock; um halb {next} = at half past {hour};
    um Viertel vor {next} = at a quarter to {next}; um Viertel nach {next} = at a quarter past {next}"""
WEEKDAYS = """Montag Monday; Dienstag Tuesday; Mittwoch Wednesday; Donnerstag Thursday; Freitag Friday;
    Samstag Saturday; Sonntag Sunday"""
MONTHS = """Januar January; Februar February; März March; April April; Mai May; Juni June; Juli July; August August;
    September September; Oktober October; November November; Dezember December"""
SEASONS = "Frühling spring; Sommer summer; Herbst autumn; Winter winter"
UNITS = "Minuten minutes; Stunden hours; Tagen days; Wochen weeks; Monaten months; Jahren years"
SMALL = """null zero; eins one; zwei two; drei three; vier four; fünf five; sechs six; sieben seven; acht eight;
    neun nine; zehn ten; elf eleven; zwölf twelve; dreizehn thirteen; vierzehn fourteen; fünfzehn fifteen;
    sechzehn sixteen; siebzehn seventeen; achtzehn eighteen; neunzehn nineteen"""
TENS = """- -; - -; zwanzig twenty; dreißig thirty; vierzig forty; fünfzig fifty; sechzig sixty; siebzig seventy;
    achtzig eighty; neunzig ninety"""
ORDINALS = """1 ersten first; 2 zweiten second; 3 dritten third; 5 fünften fifth; 7 siebten seventh; 8 achten eighth;
    9 neunten ninth; 12 zwölften twelfth"""
# Endings by case; the columns are masculine, feminine, neuter and plural.
DER = {
    "N": ("er", "ie", "as", "ie"),
    "A": ("en", "ie", "as", "ie"),
    "D": ("em", "er", "em", "en"),
    "G": ("es", "er", "es", "er"),
}
STRONG = DER | {"N": ("er", "e", "es", "e"), "A": ("en", "e", "es", "e")}
WEAK = dict.fromkeys("DG", ("en",) * 4) | {"N": ("e", "e", "e", "en"), "A": ("en", "e", "e", "en")}
ARTICLES = ("der", "die", "das")
RELATIVE_DATIVE = ("dem", "der", "dem", "denen")
EIN_WORDS = {"ein": "a", "kein": "a", "mein": "my", "dein": "your", "sein": "his", "unser": "our"}
DETERMINERS = {"d": "the", "dies": "this", "jed": "every", "": ""} | EIN_WORDS
PLURAL_DETERMINERS = DETERMINERS | {"dies": "these", "kein": "any"}
CONTRACTIONS = {"in dem": "im", "an dem": "am", "von dem": "vom", "zu dem": "zum", "zu der": "zur"}


# --- Words --------------------------------------------------------------------------------------------------
@cache
def rows(table: str) -> tuple[Tokens, ...]:
    """The entries of a lexicon table, each split into its columns, with "_" still in them."""
    return tuple(entry.split() for entry in table.split(";"))


def add_s(word: str) -> str:
    """An English plural or third person singular: ``add_s("box")`` is ``"boxes"``."""
    if word.endswith(("s", "x", "ch", "sh", "o")):
        return word + "es"
    return word[:-1] + "ies" if word[-1] == "y" and word[-2] not in "aeiou" else word + "s"


def add_ed(word: str) -> str:
    """The regular past of an English verb."""
    if word[-1] == "y" and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + ("d" if word[-1] == "e" else "ed")


def number(n: int) -> tuple[str, str]:
    """German and English words for 0 to 99: ``number(47)`` is ``("siebenundvierzig", "forty-seven")``."""
    if n < 20:
        german, english = rows(SMALL)[n]
        return german, english
    (ten, english_ten), (one, english_one) = rows(TENS)[n // 10], rows(SMALL)[n % 10]
    if n % 10 == 0:
        return ten, english_ten
    return f"{'ein' if one == 'eins' else one}und{ten}", f"{english_ten}-{english_one}"


def ordinal(n: int) -> tuple[str, str]:
    """The words for 1 to 31 as in dates: ``ordinal(3)`` is ``("dritten", "third")``."""
    for irregular, german, english in rows(ORDINALS):
        if irregular == str(n):
            return german, english
    german, english = number(n)
    if n < 20:
        return german + "ten", english + "th"
    ten, _, one = english.partition("-")
    return german + "sten", f"{ten}-{ordinal(n % 10)[1]}" if one else ten[:-1] + "ieth"


def determiner(stem: str, case: str, column: int) -> str:
    """A German determiner: ``determiner("ein", "A", 0)`` is ``"einen"``."""
    if not stem or (stem in EIN_WORDS and f"{case}{column}" in ("N0", "N2", "A2")):
        return stem
    return stem + (DER if stem == "d" else STRONG)[case][column]


def adjective_ending(stem: str, case: str, column: int) -> str:
    """The ending of an adjective after a determiner: weak if the determiner has an ending, strong otherwise."""
    return (STRONG if determiner(stem, case, column) == stem else WEAK)[case][column]


class Noun(NamedTuple):
    """A noun; ``gender`` is its column in the tables of endings."""

    gender: int
    weak: bool
    singular: str
    plural: str
    english: str
    english_plural: str
    kind: str

    def form(self, case: str, plural: bool = False) -> str:
        """The German noun in the case "N", "A", "D" or "G"."""
        if plural:
            return self.plural + ("n" if case == "D" and self.plural[-1] not in "ns" else "")
        if self.weak and case != "N":
            return self.plural
        if case != "G" or self.gender == 1:
            return self.singular
        one_syllable = len(re.findall("[aeiouäöü]+", self.singular.lower())) == 1
        return self.singular + ("es" if one_syllable else "s")


class Verb(NamedTuple):
    """A verb; ``stem`` is the infinitive without its separable prefix, ``kinds`` are those of its object."""

    prefix: str
    stem: str
    third: str
    participle: str
    base: str
    past: str
    particle: str
    kinds: str
    moves: bool
    frame: str
    preposition: str = ""
    case: str = ""

    @property
    def infinitive(self) -> str:
        """The German infinitive in one word: "zustimmen"."""
        return self.prefix + self.stem


def read_noun(kind: str, article: str, singular: str, plural: str, english: str) -> Noun:
    """A noun from its row in ``NOUNS``; English has its irregular plural after "/", and "_" for spaces."""
    english, _, irregular = english.replace("_", " ").partition("/")
    gender, weak = ARTICLES.index(article.rstrip("*")), article[-1] == "*"
    return Noun(gender, weak, singular, plural, english, irregular or add_s(english), kind)


def read_verb(frame: str, german: str, third: str, participle: str, english: str, kinds: str) -> Verb:
    """A verb from its row in ``VERBS``: "*" is before verbs that take "sein", "|" behind a separable prefix."""
    prefix, _, stem = german.lstrip("*").rpartition("|")
    english, _, past = english.replace("_", " ").partition("/")
    base, _, particle = english.partition("+")
    head, *rest = base.split()
    past = past or " ".join([add_ed(head), *rest])
    preposition, _, case = frame.rpartition(" ")
    complement = ("prepositional", preposition, case) if preposition else (frame,)
    words = (prefix, stem, third, prefix + participle, base, past, particle, kinds)
    return Verb(*words, german[0] == "*", *complement)


NOUN_LIST = [read_noun(kind, *row) for kind, table in NOUNS.items() for row in rows(table)]
VERB_LIST = [read_verb(frame, *row) for frame, table in VERBS.items() for row in rows(table)]
BE = Verb("", "sind", "ist", "", "be", "", "", "", True, "predicate")  # for the present tense only


# --- Phrases and clauses ------------------------------------------------------------------------------------
@dataclass
class Phrase:
    """A noun phrase: German by case, English as subject and as object.

    ``person`` is 0 to 4 in the order of ``PRONOUNS``, ``column`` is that of the tables of endings, ``stem`` is
    that of the determiner, and ``noun`` is None for pronouns and names.
    """

    german: dict[str, Tokens]
    english: Tokens
    english_object: Tokens
    person: int = 2
    column: int = 0
    noun: Noun | None = None
    stem: str = ""

    @property
    def may_open(self) -> bool:
        """Whether the phrase as an object may start a sentence: form or sense tell it from the subject."""
        marked = self.noun is not None and (self.noun.kind != "P" or self.column == 0)
        return marked and self.stem not in ("", "kein")

    def extend(self, german: Tokens, english: Tokens) -> None:
        """Add words at the end of the phrase."""
        self.german = {case: tokens + german for case, tokens in self.german.items()}
        self.english, self.english_object = self.english + english, self.english_object + english


GERMAN_ORDER = ("time", "dative", "accusative", "not", "price", "prepositional", "place", "predicate")
ENGLISH_ORDER = ("accusative", "dative", "prepositional", "predicate", "price", "place", "time")


@dataclass
class Clause:
    """A clause before its words are put in order; ``parts`` holds German and English by role."""

    subject: Phrase
    verb: Verb
    mode: str
    negated: bool = False
    parts: dict[str, Pair] = field(default_factory=dict)
    pronoun: str = ""  # the role of an object that is a pronoun
    openers: Tokens = field(default_factory=list)  # the roles that may start a sentence

    def german(self, order: str, front: str = "") -> Tokens:
        """The German words; ``order`` puts the verb "second", "first" or "final"; "zu" gives an infinitive."""
        verb, person = self.verb, self.subject.person
        if order == "zu":
            finite, tail = "", f"{verb.prefix}zu{verb.stem}" if verb.prefix else f"zu {verb.stem}"
        elif self.mode == "present":
            finite, tail = verb.third if person == 2 else verb.stem, verb.prefix
            if order == "final":
                finite, tail = tail + finite, ""
        elif self.mode == "perfect":
            finite, tail = (SEIN if verb.moves else HABEN)[person], verb.participle
        else:
            finite, tail = MODALS[self.mode][0].split()[person], verb.infinitive
        slots = {} if order == "zu" else {"subject": self.subject.german["N"]}
        slots |= {role: self.parts[role][0] for role in (self.pronoun, *GERMAN_ORDER) if role in self.parts}
        first = slots.pop(front, [])
        middle = [token for tokens in slots.values() for token in tokens]
        if order in ("final", "zu"):
            return [*first, *middle, *tail.split(), *finite.split()]
        return [*first, finite, *middle, *tail.split()]

    def english_verb(self, support: bool) -> tuple[str, str]:
        """An operator or "" and the rest of the verb; ``support`` asks for an operator, "do" if need be."""
        third, base = self.subject.person == 2, self.verb.base
        if self.mode == "perfect":
            return ("did", base) if support else ("", self.verb.past)
        if self.mode != "present":
            _, modal, link = MODALS[self.mode]
            if modal == "be":
                return AM[self.subject.person], f"{link} {base}"
            if modal not in ("have", "want"):
                return modal, f"{link} {base}"
            base = f"{modal} {link} {base}"
        if support:
            return ("does" if third else "do"), base
        head, _, rest = base.partition(" ")
        if head == "be":
            return "", AM[self.subject.person]
        return "", f"{('has' if head == 'have' else add_s(head)) if third else head} {rest}"

    def english(self, order: str = "statement", front: str = "") -> Tokens:
        """The English words; ``order`` is "statement", "question" or "to" for an infinitive."""
        slots = {role: self.parts[role][1] for role in ENGLISH_ORDER if role in self.parts}
        first, particle = slots.pop(front, []), self.verb.particle.split()
        if self.pronoun == "accusative":  # "picks him up", but "picks up the suitcase"
            slots["accusative"], particle = slots["accusative"] + particle, []
        rest = particle + [token for tokens in slots.values() for token in tokens]
        if order == "to":
            return ["to", *self.verb.base.split(), *rest]
        operator, verb = self.english_verb(self.negated or order == "question")
        if order == "question":
            return [*first, operator, *self.subject.english, *verb.split(), *rest]
        if self.negated:
            operator = "cannot" if operator == "can" else f"{operator} not"
        return [*first, *self.subject.english, *operator.split(), *verb.split(), *rest]


class Sentence(NamedTuple):
    """A sentence pair, with tokens joined by spaces, and the combinations of German lemmas that it holds."""

    source: str
    target: str
    combinations: frozenset[Combination]


def tidy(tokens: Iterable[str]) -> str:
    """Join tokens: contract "in dem", drop a comma before another mark, start with a capital letter."""
    done: Tokens = []
    for token in tokens:
        if done[-1:] == [","] and token in (",", ".", "?"):
            done.pop()
        contracted = CONTRACTIONS.get(f"{done[-1]} {token}") if done else None
        if contracted and done[-2:-1] != [","]:  # "vom Arzt", but "der Arzt , von dem ..."
            done[-1] = contracted
        else:
            done.append(token)
    text = " ".join(done)
    return text[0].upper() + text[1:]


def all_combinations() -> list[Combination]:
    """Every (adjective, noun) and (verb, noun) that the grammar can join, in the order of the lexicon."""
    pairs = [(stem, n.singular) for stem, _, kinds in rows(ADJECTIVES) for n in NOUN_LIST if n.kind in kinds]
    pairs += [(v.infinitive, n.singular) for v in VERB_LIST for n in NOUN_LIST if n.kind in "P" + v.kinds]
    return list(dict.fromkeys(pairs))


class Grammar:
    """Draws sentence pairs. It uses only ``random()`` of ``Random``, which is the same in every version of Python."""

    FRAMES = ("accusative",) * 11 + ("both",) * 3 + ("dative", "prepositional", "to", "at") * 2
    STEMS = ("d",) * 6 + ("dies", "mein", "dein", "sein", "unser")

    def __init__(self, random: Random) -> None:
        self.random = random
        self.combinations: set[Combination] = set()
        self.adjectives = {kind: [row for row in rows(ADJECTIVES) if kind in row[2]] for kind in NOUNS}
        self.nouns = {kind: [noun for noun in NOUN_LIST if noun.kind == kind] for kind in NOUNS}
        frames = dict.fromkeys(verb.frame for verb in VERB_LIST)
        self.verbs = {frame: [verb for verb in VERB_LIST if verb.frame == frame] for frame in frames}

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self.random.random() < probability

    def below(self, n: int) -> int:
        """An integer n' with 0 <= n' < n; unlike ``Random.randrange`` the same on every Python."""
        return int(self.random.random() * n)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, all equally likely; unlike ``Random.choice`` the same on every Python."""
        return items[self.below(len(items))]

    # Noun phrases

    def noun_phrase(self, noun: Noun, stem: str, plural: bool = False, count: int = 0) -> Phrase:
        """A phrase with a determiner of this stem or with a number, and often an adjective."""
        column = 3 if plural else noun.gender
        counted, english_counted = number(count) if count else ("", "")
        adjective = english_adjective = ""
        if self.chance(0.3):
            adjective, english_adjective, _ = self.pick(self.adjectives[noun.kind])
            self.combinations.add((adjective, noun.singular))
        german = {}
        for case in "NAD":
            inflected = adjective and adjective + adjective_ending(stem, case, column)
            german[case] = [determiner(stem, case, column), counted, inflected, noun.form(case, plural)]
            german[case] = [word for word in german[case] if word]
        first = (PLURAL_DETERMINERS if plural else DETERMINERS)[stem]
        head = noun.english_plural if plural else noun.english
        english = f"{first} {english_counted} {english_adjective} {head}".split()
        if english[0] == "a" and english[1][0] in "aeiou":
            english[0] = "an"
        return Phrase(german, english, english, 4 if plural else 2, column, noun, stem)

    def person(self, subject: Phrase | None = None, role: str = "", kind: str = "", quantified: bool = True) -> Phrase:
        """A person by noun, pronoun or name; as an object with this role, never the ``subject`` again."""
        kind = kind or self.pick(("noun",) * 8 + ("pronoun",) * 2 + ("name",))
        if kind == "name":
            name = self.pick(NAMES)
            if subject is None or subject.english != [name]:
                return Phrase({case: [name] for case in "NAD"}, [name], [name])
        if kind == "pronoun":
            person = self.below(4)
            if subject is None or subject.person != person:
                nominative, accusative, dative, english, english_object = rows(PRONOUNS)[person]
                german = {"N": [nominative], "A": [accusative], "D": [dative]}
                return Phrase(german, [english], [english_object], person, stem="pronoun")
        noun, plural = self.pick(self.nouns["P"]), self.chance(0.3)
        if subject and subject.noun:
            # the "der Frau" of "hat der Arzt der Frau ..." would read as a genitive
            genitive = role == "dative" and noun.gender == 1 and not plural
            if genitive or noun == subject.noun:
                return self.person(subject, role, kind, quantified)
        stems = self.STEMS + ("ein", "ein", "jed") * (quantified and not plural)
        return self.noun_phrase(noun, self.pick(stems), plural)

    def thing(self, kinds: str, negated: bool = False, plain: bool = False) -> Phrase:
        """A thing of one of these kinds, at times counted or owned; ``plain`` asks for a definite one."""
        noun, plural = self.pick(self.nouns[self.pick(kinds)]), self.chance(0.4)
        stem = "d" if plain else self.pick(("d", "d", *self.STEMS[5:], "ein", "ein", "ein"))
        if stem == "ein":
            if not negated and self.chance(0.35):
                return self.noun_phrase(noun, "", True, 2 + self.below(98))
            stem = "kein" if negated else "" if plural else "ein"
        phrase = self.noun_phrase(noun, stem, plural)
        if stem == "d" and not plain and self.chance(0.35):
            owner, stem = self.pick(self.nouns["P"]), self.pick(("d", "d", "mein", "dein", "sein"))
            german = [determiner(stem, "G", owner.gender), owner.form("G")]
            english = [DETERMINERS[stem], *owner.english.split()]
            if self.chance(0.3):
                name = self.pick(NAMES)
                german, english = ["von", name], [name]
            phrase.english = phrase.english_object = [*english, "'s", *phrase.english[1:]]
            phrase.extend(german, [])
        return phrase

    def with_relative(self, phrase: Phrase) -> Phrase:
        """The phrase with a relative clause, of which it is the subject or an object."""
        noun, column, person = phrase.noun, phrase.column, phrase.noun.kind == "P"
        german = {case: [determiner("d", case, column)] for case in "NA"} | {"D": [RELATIVE_DATIVE[column]]}
        english = (["who"], ["whom"]) if person else (["that"], ["that"])
        pronoun = Phrase(german, *english, phrase.person, column, noun)
        # "die Frau, die das Kind besucht" may be visitor or visited, where "der" and "den" tell the two apart
        clear = column == 0 or not person
        roles = ("accusative",) * 3 * clear + ("dative",) * person + ("prepositional",)
        if person and self.chance(0.75):
            role, verbs = "subject", self.verbs[self.pick(self.FRAMES)]
            verbs = [verb for verb in verbs if clear or verb.kinds != "P" or verb.frame != "accusative"]
        else:
            fitting = [role for role in roles if any(noun.kind in verb.kinds for verb in self.verbs[role])]
            role = self.pick(fitting)
            verbs = [verb for verb in self.verbs[role] if noun.kind in verb.kinds]
        verb = self.pick(verbs)
        if role == "subject":
            clause = self.clause(subject=pronoun, verb=verb, adverbials=(), negation=0, things=not clear)
        else:
            clause = self.clause(verb=verb, given=(role, pronoun), adverbials=(), negation=0)
        phrase.extend([",", *clause.german("final", role), ","], clause.english(front=role))
        return phrase

    # Adverbials

    def time(self, mode: str) -> Pair:
        """The time of an event, in words that suit the tense."""
        hour, year = 1 + self.below(11), str(1950 + self.below(70))
        tables = {"weekday": WEEKDAYS, "month": MONTHS, "season": SEASONS, "unit": UNITS}
        values: dict[str, Sequence[str]] = {name: self.pick(rows(table)) for name, table in tables.items()}
        values |= {"count": number(2 + self.below(98)), "ordinal": ordinal(1 + self.below(30))}
        values |= {"hour": number(hour), "next": number(hour + 1), "year": (year, year)}
        days, spans = TIMES.get(mode, TIMES[""])
        templates = [self.pick(spans.split(";"))]
        if self.chance(0.6):
            templates = [self.pick(days.split(";"))]
            if self.chance(0.35):
                templates.append(self.pick(CLOCK.split(";")))
        german, english = [], []
        for template in templates:
            left, right = template.split(" = ")
            german += left.format(**{name: value[0] for name, value in values.items()}).split()
            english = right.format(**{name: value[1] for name, value in values.items()}).split() + english
        return german, english

    def place(self, direction: bool) -> Pair:
        """The place of an event or, with ``direction``, a destination."""
        if self.chance(0.25):
            city, english = self.pick(rows(CITIES))
            return ["nach" if direction else "in", city], ["to" if direction else "in", english]
        article, noun, english, preposition, english_preposition = self.pick(rows(PLACES))
        if direction:
            preposition, english_preposition = "zu", "to"
        elif self.chance(0.3):
            preposition, english_preposition = self.pick(rows(PREPOSITIONS))
        german = [preposition, determiner("d", "D", ARTICLES.index(article)), noun]
        return german, f"{english_preposition} the {english}".replace("_", " ").split()

    # Clauses

    def clause(
        self,
        mode: str = "",
        subject: Phrase | None = None,
        verb: Verb | None = None,
        given: tuple[str, Phrase] | None = None,
        adverbials: Sequence[str] = ("time", "place", "price"),
        negation: float = 0.15,
        things: bool = False,
    ) -> Clause:
        """A clause; ``given`` is the role and phrase of one object, ``things`` keeps persons out of the rest."""
        mode = mode or self.pick(MODES)
        while subject is None or (mode == "present" and subject.person < 2):
            subject = self.person()  # no "ich" and "du" in the present, which would need forms of every verb
        verb = verb or self.pick(self.verbs[self.pick(self.FRAMES)])
        # "every man does not" would be two statements in one
        clause = Clause(subject, verb, mode, subject.stem not in ("ein", "jed") and self.chance(negation))
        nicht = clause.negated
        phrases = [subject]
        for role in OBJECTS.get(verb.frame, ()):
            kinds = verb.kinds.replace("P", "")
            if given and role == given[0]:
                phrase = given[1]
            elif role == "dative" or not kinds or ("P" in verb.kinds and not things and self.chance(0.4)):
                phrase = self.person(subject, role, quantified=not clause.negated)
            else:
                phrase = self.thing(kinds, clause.negated and role == "accusative")
            phrases.append(phrase)
            case = verb.case or role[0].upper()
            to = ["to"] if verb.frame == "both" and role == "dative" else []
            clause.parts[role] = (verb.preposition.split() + phrase.german[case], to + phrase.english_object)
            nicht = nicht and phrase.stem != "kein"
            if not verb.preposition:
                clause.pronoun = role if phrase.stem == "pronoun" else clause.pronoun
                clause.openers += [role] * phrase.may_open
        self.combinations |= {(verb.infinitive, phrase.noun.singular) for phrase in phrases if phrase.noun}
        if nicht:
            clause.parts["not"] = (["nicht"], [])
        if "time" in adverbials and not (mode == "present" and clause.negated) and self.chance(0.45):
            clause.parts["time"] = self.time(mode)
            clause.openers += ["time", "time"]
        if verb.frame in ("to", "at") or ("place" in adverbials and self.chance(0.15)):
            clause.parts["place"] = self.place(verb.frame == "to")
        elif "price" in adverbials and verb.infinitive in PRICED and self.chance(0.4):
            price = self.pick(PRICES)
            clause.parts["price"] = (["für", price, "Euro"], ["for", price, "euros"])
        return clause

    def comparison(self) -> Clause:
        """A clause such as "der Tisch ist schwerer als der Stuhl"."""
        comparative, english, kinds = self.pick(rows(COMPARATIVES))
        kind = self.pick(kinds)
        first = self.person(kind=self.pick(("noun", "name"))) if kind == "P" else self.thing(kind, plain=True)
        noun = self.pick(self.nouns[kind])
        while noun == first.noun:
            noun = self.pick(self.nouns[kind])
        second = self.noun_phrase(noun, "d", self.chance(0.3))
        german = [comparative, "als", *second.german["N"]]
        predicate = (german, [*english.split("_"), "than", *second.english])
        return Clause(first, BE, "present", parts={"predicate": predicate})

    # Sentences

    def statement(self, clause: Clause, mark: str = ".") -> Pair:
        """A main clause; English keeps its order whatever comes first in German."""
        german = clause.german("second", self.pick(["subject", *clause.openers]))
        return [*german, mark], [*clause.english(), mark]

    def simple(self) -> Pair:
        """A main clause alone."""
        return self.statement(self.clause())

    def question(self) -> Pair:
        """A question: yes or no, when, or why."""
        german, english = self.pick((([], []), (["wann"], ["when"]), (["warum"], ["why"])))
        adverbials = ("place", "price") if german == ["wann"] else ("time", "place", "price")
        clause = self.clause(adverbials=adverbials, negation=0)
        return [*german, *clause.german("first"), "?"], [*english, *clause.english("question"), "?"]

    def conjunction(self) -> Pair:
        """A main clause and a subordinate one with a conjunction such as "weil", in either order."""
        conjunction, (translation, main_mode, mode) = self.pick(list(CONJUNCTIONS.items()))
        main = self.clause(main_mode, adverbials=("time",) * (mode != "present"), negation=0)
        if not mode and self.chance(0.25):
            clause = self.comparison()
        else:
            clause = self.clause(mode, adverbials=(), negation=0 if mode else 0.15)
        german = [*conjunction.split(), *clause.german("final")]
        english = [*translation.split(), *clause.english()]
        if self.chance(0.5):
            return [*german, ",", *main.german("first"), "."], [*english, ",", *main.english(), "."]
        first, second = self.statement(main, ",")
        return [*first, *german, "."], [*second[:-1], *english, "."]

    def reported(self) -> Pair:
        """What somebody believes or says: a clause with "dass", or with "ob" after "wissen"."""
        verb = self.pick(self.verbs["that"])
        whether = verb.infinitive == "wissen" and self.chance(0.7)
        german, english = ("ob", "whether") if whether else ("dass", "that")
        mode = self.pick(("present", "present", "perfect"))
        main = self.clause(mode, verb=verb, adverbials=(), negation=whether)
        if mode == "present" and self.chance(0.3):
            clause = self.comparison()
        else:  # English shifts tenses after a past, so that only a past may follow
            clause = self.clause("perfect" if mode == "perfect" else "", adverbials=("time",))
        first, second = self.statement(main, ",")
        return [*first, german, *clause.german("final"), "."], [*second[:-1], english, *clause.english(), "."]

    def relative(self) -> Pair:
        """A main clause whose subject or object has a relative clause."""
        if self.chance(0.5):
            subject = self.with_relative(self.person(kind="noun"))
            return self.statement(self.clause(subject=subject, adverbials=()))
        verb = self.pick([verb for verb in self.verbs["accusative"] if verb.kinds != "P"])
        thing = self.with_relative(self.thing(verb.kinds.replace("P", ""), plain=True))
        return self.statement(self.clause(verb=verb, given=("accusative", thing), adverbials=()))

    def purpose(self) -> Pair:
        """An infinitive: "um ... zu" after a movement, or "zu" after verbs such as "versuchen"."""
        um = self.chance(0.6)
        verb = self.pick(self.verbs["to" if um else "zu"])
        main = self.clause(verb=verb, adverbials=("time",) * um, negation=0)
        verb = self.pick(self.verbs[self.pick(("accusative", "accusative", "both"))])
        clause = self.clause("perfect", main.subject, verb, adverbials=(), negation=0)
        first, second = self.statement(main, ",")
        return [*first, *["um"] * um, *clause.german("zu"), "."], [*second[:-1], *clause.english("to"), "."]

    def sentence(self) -> Sentence:
        """One sentence pair of a kind drawn at random."""
        self.combinations = set()
        kinds = [self.simple] * 10
        kinds += [self.question, self.conjunction, self.relative, self.reported, self.purpose] * 2
        german, english = self.pick(kinds)()
        return Sentence(tidy(german), tidy(english), frozenset(self.combinations))


# --- Corpus -------------------------------------------------------------------------------------------------
def words(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """The words of a sentence pair, each with its language."""
    for language, text in zip(LANGUAGES, sentence[:2], strict=True):
        yield from ((language, word) for word in text.split())


def generate_sentences(
    seed: int = 1, train: int = 9000, valid: int = 500, test: int = 500
) -> dict[str, list[Sentence]]:
    """Draw the splits; the same arguments give the same sentences on every Python.

    Args:
        seed: 0 or more.
        train, valid, test: the numbers of sentences, each from 1 to ``MAX_SENTENCES``.

    Returns:
        The splits by name; no two sentences are alike within or across them.

    Raises:
        OdeTransformerError: an argument is out of range, or the grammar cannot give so many sentences for valid and
            test out of words that occur ``MIN_COUNT`` times in training.
    """
    sizes = {"train": train, "valid": valid, "test": test}
    if seed < 0:
        raise OdeTransformerError(f"--seed {seed}: must be 0 or more")
    for name, size in sizes.items():
        if not 1 <= size <= MAX_SENTENCES:
            raise OdeTransformerError(f"--{name} {size}: must be from 1 to {MAX_SENTENCES}")
    random = Random(seed)
    grammar = Grammar(random)
    held_out = {pair for pair in all_combinations() if random.random() * HELD_OUT < 1}
    translations: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    splits: dict[str, list[Sentence]] = {name: [] for name in sizes}
    for name, split in splits.items():
        for _ in range(TRIES * sizes[name] + 10_000):
            sentence = grammar.sentence()
            novel = not sentence.combinations.isdisjoint(held_out)
            if sentence.source in translations:
                if translations[sentence.source] != sentence.target:
                    raise AssertionError(f"{sentence.source!r} has two translations")
            elif not novel if name == "train" else novel and known.issuperset(words(sentence)):
                translations[sentence.source] = sentence.target
                split.append(sentence)
            if len(split) == sizes[name]:
                break
        else:
            raise OdeTransformerError(
                f"--{name} {sizes[name]}: must be at most {len(split)} with --train {train}: the grammar gives no more "
                f"sentences whose words occur {MIN_COUNT} times in training"
            )
        if name == "train":
            counts = Counter(word for sentence in split for word in words(sentence))
            known = {word for word, count in counts.items() if count >= MIN_COUNT}
    return splits


def write(
    directory: str | os.PathLike[str], seed: int = 1, train: int = 9000, valid: int = 500, test: int = 500
) -> list[Path]:
    """Write ``train.de``, ``train.en``, ``valid.de`` ... ``test.en`` in UTF-8, one sentence per line.

    Each file is written whole or not at all. A second call with the same arguments leaves the same bytes. Returns the
    paths of the six files.

    Raises:
        OdeTransformerError: as in :func:`generate_sentences`, before anything is written.
        OSError: the folder cannot be made or written.
    """
    splits = generate_sentences(seed, train, valid, test)
    folder = Path(directory)
    paths = []
    for name, sentences in splits.items():
        for side, language in enumerate(LANGUAGES):
            path = folder / f"{name}.{language}"
            write_lines(path, (sentence[side] for sentence in sentences))
            paths.append(path)
    return paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the ``corpus`` command to ``parser``."""
    parser.add_argument("directory", metavar="DIRECTORY", help="folder for train.de, train.en ... test.en")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed, 0 or more (default: %(default)s)")
    for name, size in (("train", 9000), ("valid", 500), ("test", 500)):
        text = f"number of {name} sentences, 1 to {MAX_SENTENCES} (default: %(default)s)"
        parser.add_argument(f"--{name}", type=int, default=size, metavar="N", help=text)


def main(args: argparse.Namespace) -> int:
    """Run the ``corpus`` command on parsed arguments; returns the exit status."""
    paths = write(args.directory, args.seed, args.train, args.valid, args.test)
    print(*paths, sep="\n")
    return 0
