import pytest
from fastapi.testclient import TestClient
from tests.judges.play import segment
from tests.judges.test_ensemble import judged

from questloop.judges.ensemble import combine
from questloop.judges.labels import choose, compare, read_labels, write_labels
from questloop.judges.request import prepare
from questloop.serving.labelling import Labelling, build_labelling_app
from questloop.storage.store import open_store


def lines(count):
    return [
        combine(
            f"s{n:02d}",
            "e",
            0,
            {"state": judged(n / count, progress=n / count, dialog=None, efficiency=None)},
        )
        for n in range(count)
    ]


def test_a_person_labels_by_key_and_every_answer_is_kept(tmp_path):
    store = open_store(str(tmp_path))
    played = {item.segment_id: item for item in (segment(index) for index in range(3))}
    ids = list(played)

    def work():
        return Labelling(
            ids,
            lambda name: prepare(played[name]),
            lambda labels: write_labels(store, 0, labels),
            read_labels(store, 0),
        )

    page = TestClient(build_labelling_app(work()))
    assert "keydown" in page.get("/").text
    shown = page.get("/segments/0").json()
    assert (shown["count"], shown["done"], shown["key"]) == (3, 0, None)
    assert shown["picture"].startswith("data:image/png;base64,")
    assert "weighted" not in str(shown)
    assert page.post("/segments/0", json={"key": 9}).json() == {"done": 1}
    page.post("/segments/1", json={"key": 3})
    page.post("/segments/0", json={"key": 0})
    assert read_labels(store, 0) == {ids[0]: 0.0, ids[1]: 0.3333}
    assert TestClient(build_labelling_app(work())).get("/segments/1").json()["key"] == 3


@pytest.mark.parametrize(
    ("path", "body", "status"), [("/segments/9", {"key": 1}, 404), ("/segments/0", {"key": 10}, 422)]
)
def test_bad_answers_are_refused(path, body, status):
    app = build_labelling_app(Labelling(["a"], lambda name: None, lambda labels: None))
    assert TestClient(app).post(path, json=body).status_code == status


def test_segments_to_label_span_the_scores_in_an_order_that_tells_nothing():
    chosen = choose(lines(90), 30, seed=0)
    assert len(set(chosen)) == 30
    assert sorted(chosen) == [f"s{n:02d}" for n in range(0, 90, 3)]
    assert chosen != sorted(chosen)
    assert len(choose(lines(5), 30, seed=0)) == 5


def test_agreement_with_a_person():
    same = compare(lines(10), {f"s{n:02d}": n / 10 for n in range(10)})
    assert same.weighted == same.judges["state"] == 1.0
    assert same.mean_distance == pytest.approx(0)
    other = compare(lines(10), {f"s{n:02d}": 1 - n / 10 for n in range(10)})
    assert other.weighted == -1.0
    assert compare(lines(3), {}).weighted is None
