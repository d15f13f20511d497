"""Commands that check the promise of equal bits and what a person may do to it.

`python -m portability.hashes`, `matrix`, `offline`, `fuzz`, `leaks`.
"""
