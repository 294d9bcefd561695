"""English names of languages, by their ISO 639-1 codes as a training record holds them."""

_NAMES = dict(
    ar="Arabic", bg="Bulgarian", cs="Czech", da="Danish", de="German", el="Greek", en="English",
    es="Spanish", et="Estonian", fa="Persian", fi="Finnish", fr="French", he="Hebrew", hi="Hindi",
    hu="Hungarian", id="Indonesian", it="Italian", ja="Japanese", ko="Korean", lt="Lithuanian",
    lv="Latvian", nl="Dutch", no="Norwegian", pl="Polish", pt="Portuguese", ro="Romanian",
    ru="Russian", sk="Slovak", sl="Slovenian", sv="Swedish", sw="Swahili", th="Thai", tr="Turkish",
    uk="Ukrainian", vi="Vietnamese", zh="Chinese",
)  # fmt: skip


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known here."""
    return _NAMES.get(code, code)
