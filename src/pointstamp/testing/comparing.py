"""What claims are made of: a comparison that says what is wrong, with or without pytest."""


def same(found: object, wanted: object, what: str) -> None:
    """AssertionError unless both are equal."""
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted}, found {found}")
