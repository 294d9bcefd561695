"""Date formats of nine languages, and of digits alone: the tables for models.tasks.date_formats."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Language:
    """Date formats of one language.

    Each row of `months` or `weekdays` is one way to write them all; row 1 of `months` has no dots.
    Fields of `patterns`: w (weekday and what follows it, or nothing), d dd (day, two digits), nth
    (ordinal day), m mm (month), month (from any row), mon (from row 1), year (four digits or two),
    yyyy.
    """

    name: str
    share: int  # of all examples, relative to the others
    patterns: tuple[str, ...]
    weekdays: tuple[str, ...] = ()
    months: tuple[str, ...] = ()
    first: str = ""  # form of the 1st of a month if only that day has an ordinal
    nth: tuple[str, ...] = tuple(map(str, range(32)))  # ordinals by day
    after_weekday: tuple[str, ...] = (" ", ", ")

    @cached_property
    def weekday_rows(self) -> list[list[str]]:
        return [row.split() for row in self.weekdays]

    @cached_property
    def month_rows(self) -> list[list[str]]:
        return [row.split() for row in self.months]


def _english_ordinal(day: int) -> str:
    return f"{day}" + (
        "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    )


ENGLISH = Language(
    "English",
    share=6,
    patterns=(
        "{w}{d} {month} {year}", "{w}{nth} {month} {year}", "{w}{nth} of {month} {year}",
        "{w}the {nth} of {month} {year}", "{w}the {nth} of {month}, {year}", "{w}{month} {d}, {year}",
        "{w}{month} {d} {year}", "{w}{month} {nth}, {year}", "{w}{month} {nth} {year}", "{w}{month} the {nth}, {year}",
        "{w}{dd}-{mon}-{year}", "{yyyy} {month} {d}", "{yyyy}-{mon}-{dd}",
    ),
    weekdays=(
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "Mon Tue Wed Thu Fri Sat Sun",
        "Mon. Tue. Wed. Thu. Fri. Sat. Sun.",
    ),
    months=(
        "January February March April May June July August September October November December",
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
        "Jan. Feb. Mar. Apr. May June July Aug. Sept. Oct. Nov. Dec.",
    ),
    nth=tuple(map(_english_ordinal, range(32))),
)  # fmt: skip
FRENCH = Language(
    "French",
    share=2,
    patterns=("{w}{d} {month} {year}", "le {w}{d} {month} {year}", "{dd}-{mon}-{year}"),
    weekdays=(
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "lun mar mer jeu ven sam dim",
        "lun. mar. mer. jeu. ven. sam. dim.",
    ),
    months=(
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "jan fév mar avr mai juin juil aoû sep oct nov déc",
        "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    ),
    first="1er",
)
GERMAN = Language(
    "German",
    share=2,
    patterns=("{w}{d}. {month} {year}", "{w}den {d}. {month} {year}", "am {d}. {month} {year}",
              "{w}{d} {month} {year}", "{dd}-{mon}-{year}"),
    weekdays=(
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        "Mo Di Mi Do Fr Sa So",
        "Mo. Di. Mi. Do. Fr. Sa. So.",
    ),
    months=(
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez",
        "Jan. Febr. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.",
    ),
)  # fmt: skip
SPANISH = Language(
    "Spanish",
    share=2,
    patterns=("{w}{d} de {month} de {year}", "{w}{d} de {month} del {year}", "el {w}{d} de {month} de {year}",
              "{w}{d} {month} {year}", "{w}{month} {d}, {year}", "{dd}-{mon}-{year}"),
    weekdays=(
        "lunes martes miércoles jueves viernes sábado domingo",
        "lun mar mié jue vie sáb dom",
        "lun. mar. mié. jue. vie. sáb. dom.",
    ),
    months=(
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "ene. feb. mar. abr. may. jun. jul. ago. sept. oct. nov. dic.",
    ),
    first="1º",
)  # fmt: skip
ITALIAN = Language(
    "Italian",
    share=2,
    patterns=("{w}{d} {month} {year}", "{w}il {d} {month} {year}", "{dd}-{mon}-{year}"),
    weekdays=(
        "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        "lun mar mer gio ven sab dom",
        "lun. mar. mer. gio. ven. sab. dom.",
    ),
    months=(
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "gen. feb. mar. apr. mag. giu. lug. ago. sett. ott. nov. dic.",
    ),
    first="1º",
)
PORTUGUESE = Language(
    "Portuguese",
    share=2,
    patterns=("{w}{d} de {month} de {year}", "{w}{d} {month} {year}", "em {d} de {month} de {year}",
              "{dd}/{mon}/{year}"),
    weekdays=(
        "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        "segunda terça quarta quinta sexta sábado domingo",
        "seg. ter. qua. qui. sex. sáb. dom.",
    ),
    months=(
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "jan. fev. mar. abr. maio jun. jul. ago. set. out. nov. dez.",
    ),
    first="1º",
)  # fmt: skip
DUTCH = Language(
    "Dutch",
    share=2,
    patterns=(
        "{w}{d} {month} {year}",
        "op {w}{d} {month} {year}",
        "{w}de {nth} {month} {year}",
        "{dd}-{mon}-{year}",
    ),
    weekdays=(
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        "ma di wo do vr za zo",
        "ma. di. wo. do. vr. za. zo.",
    ),
    months=(
        "januari februari maart april mei juni juli augustus september oktober november december",
        "jan feb mrt apr mei jun jul aug sep okt nov dec",
        "jan. febr. mrt. apr. mei juni juli aug. sept. okt. nov. dec.",
    ),
    nth=tuple(f"{day}e" for day in range(32)),
)
CHINESE = Language(
    "Chinese",
    share=1,
    patterns=("{yyyy}年{m}月{d}日{w}", "{yyyy}年{mm}月{dd}日{w}"),
    weekdays=(
        "星期一 星期二 星期三 星期四 星期五 星期六 星期日",
        "周一 周二 周三 周四 周五 周六 周日",
    ),
    after_weekday=("",),
)
JAPANESE = Language(
    "Japanese",
    share=1,
    patterns=("{yyyy}年{m}月{d}日{w}", "{yyyy}年{mm}月{dd}日{w}", "{yyyy}/{mm}/{dd}{w}"),
    weekdays=(
        "月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日",
        "(月) (火) (水) (木) (金) (土) (日)",
    ),
    after_weekday=("",),
)
DIGITS_ONLY = Language(  # weekdays are borrowed from any of WITH_MONTH_NAMES
    "Digits",
    share=6,
    patterns=(
        "{w}{yyyy}-{mm}-{dd}", "{w}{yyyy}/{mm}/{dd}", "{w}{yyyy}.{mm}.{dd}", "{w}{yyyy} {mm} {dd}",
        "{w}{yyyy}-{m}-{d}", "{w}{yyyy}/{m}/{d}", "{w}{yyyy}.{m}.{d}", "{w}{yyyy} {m} {d}",
        "{w}{dd}-{mm}-{year}", "{w}{dd}/{mm}/{year}", "{w}{dd}.{mm}.{year}", "{w}{dd} {mm} {year}",
        "{w}{d}-{m}-{year}", "{w}{d}/{m}/{year}", "{w}{d}.{m}.{year}", "{w}{d} {m} {year}",
        "{yyyy}{mm}{dd}",
    ),
)  # fmt: skip
WITH_MONTH_NAMES = (ENGLISH, FRENCH, GERMAN, SPANISH, ITALIAN, PORTUGUESE, DUTCH)
LANGUAGES = (*WITH_MONTH_NAMES, CHINESE, JAPANESE, DIGITS_ONLY)
