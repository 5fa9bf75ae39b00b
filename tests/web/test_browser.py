"""The dashboard in Chromium: a run watched from its beginning, every view on it, and a job to its end."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from questloop.game.recording import write_film
from questloop.judges.labels import read_labels
from questloop.report.book import RunBook
from questloop.report.report import render
from questloop.serving.background import AppServer
from questloop.settings import load
from questloop.storage import keys
from questloop.storage.commit import commit_stage, to_json
from questloop.storage.keys import EpisodeId, SegmentId, Stage
from questloop.storage.store import open_store
from questloop.telemetry.progress import ProgressFile
from questloop.web.app import build_app
from questloop.web.setup_pages import read_notes

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 180_000  # a busy machine is no fault
VIEWS = [
    "/", "/curves", "/map", "/segments", "/episodes", "/archive", "/planner", "/judges", "/label", "/run",
    "/nothing",
]  # fmt: skip
LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
}
DEMO = {
    "EPOCH_STEPS": "12288",
    "FRAME_SKIP": "4",
    "RAY_WORKERS": "2",
    "ENVS_PER_WORKER": "4",
    "EPISODE_LENGTH": "600",
    "BATCH_SIZE": "1024",
    "MINIBATCH_SIZE": "256",
    "EXPORT_SEGMENTS_PER_EPOCH": "all",
    "PLANNER": "on",
    "ARCHIVE_FRACTION": "0.3",
}

WAITS = """
import pathlib, sys, time
print("begun", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
print("all done")
"""

MANY = 10_000
ALL_LINKS = """async order => {
  const found = [];
  for (let page = 1; page <= 167; page++) {
    const answer = await fetch(`/segments?epoch=1&order=${order}&page=${page}`);
    const list = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const link of list.querySelectorAll("main .cards a")) found.push(link.pathname.split("/").pop());
  }
  return found;
}"""

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

pytestmark = [
    pytest.mark.long,
    pytest.mark.integration,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser(judged):  # first: it runs an event loop, and playwright has one of its own
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(browser):
    """Opens a page of a look; what its console says is an error of the test."""
    complaints = []

    @contextmanager
    def look(name="light"):
        context = browser.new_context(**LOOKS[name])
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("console", lambda said: complaints.append((said.location["url"], said.text)))
        page.on("pageerror", lambda error: complaints.append((page.url, str(error))))
        page.on("request", lambda asked: _check_local(asked.url, complaints))
        yield page
        context.close()

    yield look
    ours = [told for told in complaints if "404 (Not Found)" not in told[1] or "/nothing" not in told[0]]
    assert not ours


@pytest.fixture(scope="module")
def watched(tmp_path_factory, browser):
    """A demo that a page has watched from an empty store to its end: address, and what the page showed."""
    folder = tmp_path_factory.mktemp("watched")
    store = open_store(str(folder / "store"))
    with AppServer(build_app(store, load(flags={"store_url": store.url}))) as server:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(server.root_url)
        page.get_by_text("Waiting for a run to begin").wait_for()
        page.evaluate("window.loadedOnce = true")
        with _command(folder, "demo", "--store", str(folder / "store"), "--epochs", "1", **DEMO) as demo:
            page.get_by_text("Epoch 0 plays and learns").wait_for()
            page.locator("#fresh .plot").first.wait_for()  # its curve, before it is finished
            page.get_by_text("The run is over", exact=True).wait_for(timeout=2 * PATIENCE_MS)
            assert demo.wait(120) == 0
        page.get_by_role("region", name="Epochs").get_by_text("12,288").wait_for()
        assert page.evaluate("window.loadedOnce"), "it was followed, not loaded again"
        page.close()
        yield server.root_url


@pytest.fixture(scope="module")
def many(tmp_path_factory, judged):
    """A copy of a judged run with one more epoch: 10,000 segments, the newest 120 with their pictures."""
    store = open_store(str(shutil.copytree(judged, tmp_path_factory.mktemp("many") / "store")))
    book = RunBook(store)
    source = book.manifest(book.segments(0)[0])
    line = book.scores(0)[source.segment_id]
    objects, lines = [], []
    for number in range(MANY):
        episode = EpisodeId("r1", 1, number // 100, number % 100)
        name = str(SegmentId(episode, 0, 1))
        pictured = number >= MANY - 120
        changed = {"segment_id": name, "episode_id": str(episode), "epoch": 1, "fence": 1}
        if pictured:
            for file in source.files:
                data = store.get(keys.segment_file(source.segment_id, file.name))
                store.put(keys.segment_file(name, file.name), data)
        else:
            changed |= {"pngs": 0, "files": ()}
        objects.append(store.put(keys.manifest(name), to_json(source.model_copy(update=changed))))
        scored = {"segment_id": name, "episode_id": str(episode), "weighted": number / MANY}
        lines.append(line.model_copy(update=scored).model_dump_json())
    commit_stage(store, 1, Stage.ROLLOUTS, 1, objects, book.info(0, Stage.ROLLOUTS) | {"epoch": 1})
    scores = store.put(keys.scores(1), "\n".join(lines).encode())
    commit_stage(store, 1, Stage.EVALUATE, 1, [scores], book.info(0, Stage.EVALUATE))
    return store


@pytest.mark.parametrize("name", LOOKS)
def test_every_view_of_a_run_is_whole_accessible_and_fits(watched, look, name):
    with look(name) as page:
        page.goto(f"{watched}/segments?order=best")
        first = page.locator("main .cards a").first.get_attribute("href")
        page.goto(watched + first)
        episode = page.locator("h1 a").get_attribute("href")
        for view in [*VIEWS, first, episode]:
            page.goto(watched + view)
            page.locator("#main").wait_for()
            _check_fits(page)
            _check_accessible(page)
            _check_pictures(page)


def test_a_segment_is_played_by_keyboard(watched, look):
    with look() as page:
        page.goto(f"{watched}/segments?order=best")
        page.locator("main .cards a").first.press("Enter")
        page.wait_for_url("**/segments/*-f*")
        page.wait_for_load_state()
        slider = page.get_by_role("slider")
        before = page.locator(".player img").get_attribute("src")
        slider.press("ArrowRight")
        assert page.locator(".player img").get_attribute("src") != before
        assert "step" in slider.get_attribute("aria-valuetext")
        page.get_by_text("points of progress").first.wait_for()  # a judge's reason


def test_curves_are_smoothed_zoomed_and_drawn_logarithmically_by_keyboard_and_pointer(watched, look):
    with look() as page:
        page.goto(f"{watched}/curves")
        figure = page.locator('[data-curve="entropy"]')
        figure.locator("polyline").first.wait_for()
        drawn = figure.locator("polyline").last.get_attribute("points")
        page.get_by_role("slider", name="Smoothing").press("Home")
        assert figure.locator("polyline").last.get_attribute("points") != drawn
        whole = figure.locator("polyline").last.get_attribute("points").count(",")
        figure.press("+")
        page.get_by_role("button", name="Whole run").wait_for()
        page.wait_for_function(
            "n => document.querySelector('[data-curve=entropy] polyline').points.length < n",
            arg=whole,
        )
        page.get_by_role("button", name="Whole run").click()
        page.get_by_role("button", name="Whole run").wait_for(state="hidden")
        figure.scroll_into_view_if_needed()  # a mouse reaches what is seen
        box = figure.locator(".chart").bounding_box()
        page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 40)
        page.mouse.up()
        page.get_by_role("button", name="Whole run").wait_for()
        page.get_by_label("logarithmic axis").check()
        _check_accessible(page)


def test_the_map_plays_recorded_agents_over_the_tiles_that_were_walked(watched, look):
    with look() as page:
        page.goto(f"{watched}/map")
        page.locator(".rooms canvas").first.wait_for(state="attached")
        page.locator("svg.trails circle").first.wait_for(state="attached")
        said = page.locator("[data-said]")
        before = said.text_content()
        page.get_by_role("slider", name="Time").press("ArrowRight")
        assert said.text_content() != before
        page.get_by_label("tiles walked").uncheck()
        assert page.locator(".rooms canvas").count() == 0
        page.get_by_label("Agents").select_option("none")
        assert page.locator("svg.trails").count() == 0


def test_a_finished_run_looks_finished(watched, look):
    with look() as page:
        page.goto(watched)
        page.get_by_text("finished", exact=True).wait_for()
        assert not page.get_by_text("time left in this stage").is_visible()
        assert not page.get_by_text("What agents see now").is_visible()


def test_a_stopped_run_looks_stopped(store, look):
    written = []
    progress = ProgressFile(written.append, "r1")
    progress.update(1, "rollouts", 5_000, 12_000, 50.0, {"step_start": 4_000, "places": {"0:20": 1.0}})
    progress.flush()
    store.put(keys.progress(), written[-1])
    with AppServer(build_app(store, load(flags={"store_url": store.url}))) as server, look() as page:
        page.goto(server.root_url)
        page.get_by_text("1,000 of 8,000 steps").wait_for()  # of the epoch, as the terminal counts
        page.get_by_text("50 steps per second").wait_for()
        progress.stop()
        store.put(keys.progress(), written[-1])
        page.get_by_text("Epoch 1 was stopped").wait_for()
        page.get_by_text("The same command goes on").last.wait_for()
        page.get_by_text("stopped", exact=True).wait_for()
        assert not page.get_by_text("time left in this stage").is_visible()
        assert not page.get_by_text("What agents see now").is_visible()


@pytest.mark.parametrize("name", LOOKS)
def test_the_report_fits_says_what_scrolls_and_hides_nothing_of_its_film(store, look, tmp_path, name):
    settings, film = load(flags={"store_url": store.url}), tmp_path / "film.mp4"
    write_film(film, [np.zeros((492, 480, 3), np.uint8)] * 10, 15, scale=1)
    store.put(keys.film(0, "best"), film.read_bytes())
    (tmp_path / "report.html").write_text(render(store, settings), "utf-8")
    with look(name) as page:
        page.goto((tmp_path / "report.html").as_uri())
        page.wait_for_function("document.querySelector('.movie video').readyState > 0")
        high, wide = page.evaluate(
            "(film => [film.clientHeight, film.clientWidth])(document.querySelector('.movie video'))"
        )
        assert high >= wide * 492 / 480 + 60, "room for the controls below the picture"
        _check_fits(page)
        told = page.evaluate(
            "[...document.querySelectorAll('.scroll')].map(box => [box.scrollWidth > box.clientWidth + 1,"
            " Boolean(box.previousElementSibling?.matches('.sideways'))])"
        )
        assert all(scrolls == said for scrolls, said in told)
        assert name != "phone" or any(scrolls for scrolls, _ in told)


def test_notes_are_written_with_the_token(store, look):
    settings = load(flags={"store_url": store.url, "dashboard_token": "secret"})
    with AppServer(build_app(store, settings)) as server, look() as page:
        page.goto(f"{server.root_url}/run")
        page.get_by_label("What is this run about?").fill("learning rate halved")
        page.get_by_label("Token").fill("secret")
        page.get_by_role("button", name="Keep").click()
        page.get_by_text("Kept.").wait_for()
        _check_accessible(page)
    assert read_notes(store).text == "learning rate halved"


def test_the_list_is_filtered_by_its_form(watched, look):
    with look() as page:
        page.goto(f"{watched}/segments")
        page.get_by_label("Order").select_option("disputed")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**order=disputed**")
        assert page.locator("main .cards li").count() > 0


def test_ten_thousand_segments_are_listed_and_all_are_reached(many, look):
    settings = load(flags={"store_url": many.url})
    with AppServer(build_app(many, settings)) as server, look() as page:
        for path in ("", "&order=best", "", "&order=best&page=99"):
            page.goto(f"{server.root_url}/segments?epoch=1{path}", wait_until="load")
            took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
            print(f"/segments?epoch=1{path}: {took:.0f} ms until all in sight is loaded")
            page.get_by_text(f"{MANY:,} segments").wait_for()
            assert page.locator("main .cards li").count() == 60
        for order in ("newest", "best"):
            page.goto(f"{server.root_url}/segments?epoch=1&order={order}&page=10000")
            page.get_by_text("page 167 of 167").wait_for()
            assert set(page.evaluate(ALL_LINKS, order)) == set(RunBook(many).segments(1))


def test_a_person_labels_by_keyboard_with_the_token_that_the_command_hands_over(store, look):
    settings = load(flags={"store_url": store.url, "dashboard_token": "a secret"})
    with AppServer(build_app(store, settings)) as server, look() as page:
        page.goto(f"{server.root_url}/label#token=a+secret")
        page.get_by_text("0 labelled").wait_for()
        assert "secret" not in page.url
        page.keyboard.press("7")
        page.get_by_text("Segment 2 of").wait_for()
        page.get_by_text("1 labelled").wait_for()
    assert list(read_labels(store, 0).values()) == [0.7778]


def test_a_page_follows_a_dashboard_that_comes_back(judged, browser):
    settings = load(flags={"store_url": str(judged)})
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    with AppServer(build_app(open_store(str(judged)), settings), port) as server:
        page.goto(server.root_url)
        page.get_by_text("connected", exact=True).wait_for()
        # The stream that is open does not hold the server up.
    page.get_by_text("not connected, trying again").wait_for()
    with AppServer(build_app(open_store(str(judged)), settings), port):
        page.get_by_text("connected", exact=True).wait_for()
        page.close()


def test_a_fleet_job_is_followed_to_its_end(tmp_path, judged, look, monkeypatch):
    from questloop.fleet import jobs
    from questloop.fleet.database import Database

    environment = {
        "HOME": str(tmp_path),
        "DATABASE_URL": f"sqlite:///{tmp_path}/fleet.sqlite3",
        "LOG_DIR": str(tmp_path / "logs"),
        "NATS_URL": "nats://127.0.0.1:1",  # nobody there: the queue is swept
        "SWEEP_INTERVAL_S": "0.2",
        "WATCH_INTERVAL_S": "0.2",
        "POLL_INTERVAL_S": "1",
    }
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    settings = load(flags={"store_url": str(judged)})
    db = Database(environment["DATABASE_URL"])
    db.migrate()
    program = [sys.executable, "-c", WAITS, str(tmp_path / "go")]
    jobs.submit(
        db,
        jobs.parse_request({"job_id": "watched", "kind": "command", "gpus": 0, "arguments": program}),
    )
    with (
        AppServer(build_app(open_store(str(judged)), settings, db)) as server,
        look() as page,
        _command(tmp_path, "fleet", "up", "--cpu-slots", "1", **environment),
    ):
        page.goto(f"{server.root_url}/fleet")
        page.get_by_role("link", name="watched").click()
        log = page.get_by_label("End of the log")
        log.filter(has_text="begun").wait_for()
        page.locator("[data-status]", has_text="running").wait_for()
        _check_accessible(page)
        page.evaluate("window.loadedOnce = true")
        (tmp_path / "go").touch()
        page.locator("[data-status]", has_text="completed").wait_for()
        log.filter(has_text="all done").wait_for()
        page.get_by_role("region", name="Attempts").get_by_text("completed").wait_for()
        assert page.evaluate("window.loadedOnce")
        for view in ("/fleet", "/fleet/jobs/watched"):
            page.goto(server.root_url + view)
            _check_accessible(page)
    db.dispose()


@contextmanager
def _command(folder, *arguments, **environment):
    """A command of ours in a process group, ended with the block; what it said stands in an error's notes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore", **environment}
    said = folder / "command.log"
    with said.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "questloop.cli.app", *arguments],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    except Exception as error:
        error.add_note(f"exit code {process.poll()}\n{said.read_text()[-3000:]}")
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _check_local(url, complaints):
    if not url.startswith(("http://127.0.0.1:", "file:///", "data:", "blob:")):
        complaints.append((url, "is asked of another machine"))


def _check_fits(page):
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{page.url} is {wide} pixels too wide"


def _check_accessible(page):
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]})
    assert not found.response["violations"], f"{page.url}\n{found.generate_report()}"


def _check_pictures(page):
    """Every picture that is in sight has been drawn."""
    page.wait_for_function(
        "[...document.images].every(image =>"
        " (image.loading === 'lazy' && !image.complete) || image.naturalWidth > 0)"
    )
