"""The catalogue of models that ``pointstamp check models`` puts before the judge."""
