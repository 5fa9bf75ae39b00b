"""Plays Mossgrove from power-on to the Evening Light and writes the inputs into the package.

PYTHONPATH=src python games/mossgrove/walkthrough.py [--ship]
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from questloop.game.actions import Action  # noqa: E402
from questloop.game.profiles import mossgrove  # noqa: E402
from questloop.game.rom import Rom  # noqa: E402
from tools import assets, player  # noqa: E402  (the folder of this script is no package)

UP, DOWN, LEFT, RIGHT = Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT
INPUTS = HERE.parents[1] / "src/questloop/game/roms/mossgrove.inputs"
REMARK = "# From power-on to the last light: written by games/mossgrove/walkthrough.py.\n"


def begin(p: player.Player) -> None:
    p.wait(30)
    for _ in range(4):
        p.step(Action.START)
        p.wait(3)
    p.ready()


def meadow(p: player.Player) -> None:
    p.use(3, 6, RIGHT)  # the elder
    p.leave(LEFT)
    p.take(2, 4)  # the blade
    p.leave(RIGHT)
    p.leave(RIGHT)


def grotto(p: player.Player) -> None:
    p.fight()
    p.cut(3, 6, UP)
    p.cut(2, 6, UP)
    p.go(2, 7)
    p.enter(1, 7)
    p.fight()
    p.leave(RIGHT)
    p.fight()
    p.wait(6)
    p.use(2, 7, UP)  # the small key
    p.leave(LEFT)
    p.push(0, 4, UP)  # the lock
    p.leave(UP)
    p.fight()
    p.push(5, 4, UP)
    p.push(4, 4, UP)
    p.leave(UP)
    p.fight()
    p.leave(LEFT)
    p.take(3, 4)  # the Morning Light


def village(p: player.Player) -> None:
    p.cut(2, 6, LEFT)
    p.go(2, 6)
    p.cut(3, 6, DOWN)
    p.leave(UP)
    p.leave(RIGHT)
    p.leave(UP)
    p.fight()
    p.use(1, 4, UP)  # thirty amber
    p.leave(DOWN)
    p.leave(LEFT)
    p.enter(3, 6)
    p.use(4, 3, UP)  # the shield
    p.enter(7, 4)
    p.leave(LEFT)
    p.enter(3, 4)
    p.use(2, 6, UP)  # the bell
    p.enter(7, 4)
    p.leave(LEFT)


def pond(p: player.Player) -> None:
    p.go(4, 6)
    p.step(Action.B)
    p.wait(2)
    p.ready()
    p.leave(UP)
    p.leave(RIGHT)
    p.enter(3, 4)


def vault_keys(p: player.Player) -> None:
    p.fight()
    p.leave(LEFT)
    p.push(3, 5, UP)
    for column in (5, 4, 3):
        p.push(2, column, LEFT)
    p.use(1, 7, UP)  # the first key
    p.leave(RIGHT)
    p.push(0, 4, UP)
    p.leave(RIGHT)
    p.go(5, 7)  # the button
    p.wait(4)
    p.leave(UP)
    p.fight()
    p.strike(1, 1, LEFT)
    p.strike(1, 8, RIGHT)
    p.use(2, 4, RIGHT)  # the second key
    p.leave(DOWN)
    p.leave(LEFT)


def vault_blade(p: player.Player) -> None:
    p.leave(UP)
    p.fight()
    p.heal()
    p.push(3, 0, LEFT)
    p.leave(LEFT)
    p.go(3, 7)
    p.fight()  # the thornback
    p.wait(6)
    p.leave(UP)
    p.use(2, 4, UP)  # the heartwood blade
    p.heal()
    p.leave(DOWN)
    p.leave(RIGHT)
    p.leave(DOWN)


def vault_light(p: player.Player) -> None:
    p.leave(RIGHT)
    p.leave(UP)
    p.cut(0, 4, UP)
    p.leave(UP)
    p.use(1, 1, UP)  # the great key
    p.leave(DOWN)
    p.leave(DOWN)
    p.leave(LEFT)
    p.leave(UP)
    p.heal()
    p.push(0, 4, UP)
    p.leave(UP)
    p.go(5, 4)
    p.duel()  # Murkroot
    p.wait(6)
    p.take(4, 4)
    p.leave(UP)
    p.take(3, 4)  # the Evening Light
    p.ready()


def play(p: player.Player) -> None:
    for act in (begin, meadow, grotto, village, pond, vault_keys, vault_blade, vault_light):
        act(p)


def new_player(rom: Path | None) -> player.Player:
    tiles = assets.read_metatiles(HERE)
    bush = next(tile.number for tile in tiles if tile.name == "bush")
    return player.Player(Rom.load(rom), mossgrove.PROFILE, bytes(tile.kind for tile in tiles), bush)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rom", type=Path, help="default: the ROM in the package")
    parser.add_argument("--ship", action="store_true", help="write the inputs into the package")
    args = parser.parse_args()
    p = new_player(args.rom)
    try:
        play(p)
    finally:
        frames = sum(item.frames for item in p.inputs)
        print(f"{len(p.inputs)} steps, {frames} frames; at {p.place}, lights {p.byte(0xC6BB):02b}")
    if args.ship:
        INPUTS.write_text(REMARK + p.script())


if __name__ == "__main__":
    main()
