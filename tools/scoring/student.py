"""Student's t: how many standard errors an interval of 95 % takes where the error itself comes from a few dates."""

from __future__ import annotations

# By degrees of freedom, from 1.
_FIRST = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
)  # fmt: skip
_NORMAL = 1.959964


def t_95(degrees: int) -> float:
    """Return the two-sided 95 % quantile for 1 or more degrees of freedom, right to 0.001.

    Above 20 by its expansion in 1 / degrees (Abramowitz and Stegun, 26.7.5).
    """
    if degrees <= len(_FIRST):
        return _FIRST[degrees - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
