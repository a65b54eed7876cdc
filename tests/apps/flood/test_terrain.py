from __future__ import annotations

import numpy as np

from holdfast.apps.flood.terrain import Ground, noise, noise_with_slope

FINE = np.linspace(-7, 23, 601)


def test_the_slope_of_the_noise_is_its_derivative() -> None:
    ground = Ground(3, FINE, FINE[::-1])
    value, by_east, by_north = noise_with_slope(ground, 1, 5.0)
    assert (value == noise(ground, 1, 5.0)).all()
    step = FINE[1] - FINE[0]
    across = (value[:, 2:] - value[:, :-2]) / (2 * step)
    upwards = (value[:-2] - value[2:]) / (2 * step)
    assert np.abs(across - by_east[:, 1:-1]).max() < 0.01
    assert np.abs(upwards - by_north[1:-1]).max() < 0.01
    assert 0.3 < value.std() < 1


def test_noise_depends_on_the_ground_and_not_on_the_tile() -> None:
    whole = noise(Ground(3, FINE, FINE), 1, 5.0)
    part = noise(Ground(3, FINE[200:300], FINE[350:]), 1, 5.0)
    assert (part == whole[350:, 200:300]).all()
    assert (noise(Ground(4, FINE, FINE), 1, 5.0) != whole).any()
    assert (noise(Ground(3, FINE, FINE), 2, 5.0) != whole).any()
