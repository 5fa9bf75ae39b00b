"""Takes a picture of every page of the dashboard over a store: light, dark, and as wide as a phone.

    python scripts/dashboard_pictures.py runs/demo build/pictures
    python scripts/dashboard_pictures.py runs/demo build/pictures --only curves --look phone
    python scripts/dashboard_pictures.py runs/demo docs/pictures --docs

The last one writes the pictures of the documentation. It needs the development extras and Chromium. What a
page says on its console, and what is wider than its window, is printed.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from questloop.serving.background import AppServer
from questloop.setting_types import LEARNS
from questloop.settings import load
from questloop.storage.store import open_existing_store
from questloop.web.hub import build_dashboard

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}
DOCS = {"overview": 1290, "segment": 1535, "map": 1165}
"""Pictures of the documentation by page, and how many pixels from its top they show."""
FLAGS = ["--no-sandbox", "--disable-gpu"]
SETTLED_MS = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="a part of the pages' names")
    parser.add_argument("--look", choices=LOOKS, help="one look only")
    parser.add_argument("--docs", action="store_true", help="the pictures of the documentation alone")
    asked = parser.parse_args()
    settings = load(flags={"store_url": asked.store}, defaults=LEARNS)
    asked.out.mkdir(parents=True, exist_ok=True)
    app = build_dashboard(open_existing_store(settings.store), settings)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with AppServer(app) as server, sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=FLAGS)
        if asked.docs:
            take_for_docs(browser, server.root_url, asked.out)
        else:
            for look in [asked.look] if asked.look else LOOKS:
                take(browser, server.root_url, look, asked.only, asked.out)
        browser.close()


def take(browser: Browser, root: str, look: str, only: str, out: Path) -> None:
    """Pictures of the pages whose names hold `only`, in one look."""
    page = open_page(browser, look)
    for name, path in paths(page, root).items():
        if only in name:
            show(page, root + path)
            page.screenshot(path=out / f"{name}-{look}.png", full_page=True)
    page.context.close()


def take_for_docs(browser: Browser, root: str, out: Path) -> None:
    """The beginnings of the pages of `DOCS`, as small files."""
    page = open_page(browser, "light")
    found = paths(page, root)
    for name, height in DOCS.items():
        show(page, root + found[name])
        picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
        top = picture.crop((0, 0, picture.width, min(height, picture.height)))
        top.save(out / f"dashboard-{name}.webp", quality=75, method=6)
    page.context.close()


def open_page(browser: Browser, look: str) -> Page:
    """A page of a look, which prints what its console says."""
    page = browser.new_context(**LOOKS[look]).new_page()
    page.set_default_timeout(120_000)
    page.on("console", lambda said: print(f"{look} {page.url}: {said.text}"))
    page.on("pageerror", lambda error: print(f"{look} {page.url}: {error}"))
    return page


def paths(page: Page, root: str) -> dict[str, str]:
    """Names and paths of the pages: those of the navigation, the best segment and its episode."""
    page.goto(root)
    found = [link.get_attribute("href") or "" for link in page.locator("nav a").all()]
    named = {path.strip("/") or "overview": path for path in found}
    page.goto(f"{root}/segments?order=best")
    first = page.locator("main .cards a")
    if first.count():
        named["segment"] = first.first.get_attribute("href") or ""
        page.goto(root + named["segment"])
        named["episode"] = page.locator("h1 a").get_attribute("href") or ""
    return named


def show(page: Page, address: str) -> None:
    """Go to a page and wait until all of it is drawn."""
    page.goto(address)
    for image in page.locator("img[loading=lazy]").all():
        image.scroll_into_view_if_needed()
    page.evaluate(
        "for (const box of document.querySelectorAll('.scroll')) box.scrollLeft = 0; scrollTo(0, 0)"
    )
    page.wait_for_timeout(SETTLED_MS)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        print(f"{address}: {wide} pixels too wide")


if __name__ == "__main__":
    main()
