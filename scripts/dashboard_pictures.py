"""Takes a picture of every page of the dashboard over a store: light, dark, and as wide as a phone.

    python scripts/dashboard_pictures.py runs/demo build/pictures
    python scripts/dashboard_pictures.py runs/demo build/pictures --only curves --look phone

It needs the development extras and Chromium. What a page says on its console, and what is wider than its
window, is printed.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from questloop.serving.background import AppServer
from questloop.setting_types import LEARNS
from questloop.settings import load
from questloop.storage.store import open_existing_store
from questloop.web.hub import build_dashboard

LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
}
FLAGS = ["--no-sandbox", "--disable-gpu"]
SETTLED_MS = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="a part of the pages' names")
    parser.add_argument("--look", choices=LOOKS, help="one look only")
    asked = parser.parse_args()
    settings = load(flags={"store_url": asked.store}, defaults=LEARNS)
    asked.out.mkdir(parents=True, exist_ok=True)
    app = build_dashboard(open_existing_store(settings.store), settings)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with AppServer(app) as server, sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=FLAGS)
        for look in [asked.look] if asked.look else LOOKS:
            take(browser, server.root_url, look, asked.only, asked.out)
        browser.close()


def take(browser: Browser, root: str, look: str, only: str, out: Path) -> None:
    """Pictures of the pages whose names hold `only`, in one look."""
    context = browser.new_context(**LOOKS[look])
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.on("console", lambda said: print(f"{look} {page.url}: {said.text}"))
    page.on("pageerror", lambda error: print(f"{look} {page.url}: {error}"))
    page.goto(root)
    paths = [link.get_attribute("href") or "" for link in page.locator("nav a").all()]
    page.goto(f"{root}/segments?order=best")
    first = page.locator("main .cards a")
    if first.count():
        paths.append(first.first.get_attribute("href") or "")
        page.goto(root + paths[-1])
        paths.append(page.locator("h1 a").get_attribute("href") or "")
    for path in dict.fromkeys(paths):
        name = re.sub(r"\W+", "-", path.strip("/"))[:40] or "overview"
        if only not in name:
            continue
        page.goto(root + path)
        for image in page.locator("img[loading=lazy]").all():
            image.scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(SETTLED_MS)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            print(f"{look} {path}: {wide} pixels too wide")
        page.screenshot(path=out / f"{name}-{look}.png", full_page=True)
    context.close()


if __name__ == "__main__":
    main()
