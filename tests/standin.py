"""Memory images of the stand-in, read by the profile of Oracle of Seasons."""

import numpy as np
from games.standin import facts, images, rules

from questloop.game.profiles.oracle_of_seasons import PROFILE
from questloop.game.state import decode
from questloop.planner.view import Scene, View, view_of

__all__ = ["facts", "images", "rules", "scene_of_image", "view_of_image"]


def scene_of_image(image) -> Scene:
    row = np.zeros(PROFILE.layout.size, np.uint8)
    PROFILE.layout.read(image, row.data)
    assert PROFILE.details is not None
    return Scene(decode(row, PROFILE), image.look(PROFILE.details))


def view_of_image(image) -> View:
    return view_of(scene_of_image(image), PROFILE)
