"""The status page in a real Chromium: live, safe, and readable in light, in dark and on a phone."""

import contextlib
import shutil
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from streamnb.metrics import Metrics
from streamnb.reports import Bin, Confusion, Drift, Status, TopFeature, TopFeatures
from streamnb.web import WebServer
from tests.broker import wait_until
from tests.statuses import class_scores, counted_step, labelled, model, partitions, scores, status

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"><svg onload="window.hacked = 1">',
    "</script><script>window.hacked = 1</script>",
    "__proto__",
    "constructor",
    "javascript:window.hacked=1",
    "x" * 5000,
]
TEXTS = ["#app", "#about", "#state", ".figure .value", ".figure p:last-child", "th", "td", ".key", "#reason"]


class Watched:
    """A daemon as far as the page can see, whose status the test changes."""

    def __init__(self) -> None:
        self.metrics = Metrics("fraud", "host-1", "0.1.0")
        self.web = WebServer("127.0.0.1", 0, self.metrics, lambda: self.metrics.latest_status, lambda: 0.0, 60.0)

    def show(self, latest: Status) -> None:
        self.metrics.status(latest)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.fail("the status page needs a real browser: install chromium (apt-get install chromium)")
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def daemon() -> Iterator[Watched]:
    watched = Watched()
    watched.web.start()
    yield watched
    watched.web.stop()


@contextlib.contextmanager
def looking(browser: Browser, daemon: Watched, width: int = 1280, scheme: str = "light") -> Iterator[Page]:
    """The page, open; it must not have complained, nor asked anyone but the daemon for anything."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("dialog", lambda dialog: trouble.append(dialog.message))
    page.on("request", lambda request: trouble.append(request.url) if foreign(request.url, daemon) else None)
    page.goto(daemon.web.url)
    expect(page.locator("#clock")).not_to_be_empty()
    yield page
    context.close()
    assert trouble == []


def foreign(url: str, daemon: Watched) -> bool:
    return not url.startswith((daemon.web.url + "/", "data:"))


def column(page: Page, table: str, number: int) -> list[str]:
    return page.locator(f"#{table} tbody tr > :nth-child({number})").all_text_contents()


def figure(page: Page, title: str) -> str:
    box = page.locator(".figure").filter(has=page.get_by_role("heading", name=title, exact=True))
    return box.inner_text()


def test_a_daemon_that_has_seen_nothing_has_a_page(browser: Browser, daemon: Watched) -> None:
    daemon.show(status(snapshot_time=None, snapshot_bytes=None, last_step=None, last_commit=None))
    with looking(browser, daemon) as page:
        expect(page.locator("#state")).to_have_text("running")
        expect(page.get_by_text("no labelled events yet").first).to_be_visible()
        assert "NaN" not in page.inner_text("body")
        assert "undefined" not in page.inner_text("body")


def test_before_the_first_status_the_page_says_starting(browser: Browser, daemon: Watched) -> None:
    with looking(browser, daemon) as page:
        expect(page.locator("#state")).to_have_text("starting")


def test_the_figures_are_those_of_the_daemon(browser: Browser, daemon: Watched) -> None:
    daemon.show(
        status(
            model=model({"spam": 1500.0, "ham": 500.0}, n_features=321),
            scores=scores(2000, 1800, recent_accuracy=0.912, majority_correct=1500),
            partitions=partitions("in", [labelled(90, 100), labelled(80, 100)]),
            dead_letters={"bad_label": 7, "not_json": 2, "too_large": 0},
        )
    )
    with looking(browser, daemon) as page:
        accuracy = figure(page, "Accuracy, recent")
        assert "91.2 %" in accuracy
        assert "90.0 % overall, majority class 75.0 %" in accuracy
        assert "0.500" in figure(page, "Log loss")
        assert "30" in figure(page, "Lag")
        assert "2,000" in figure(page, "Model")
        assert "2 classes, 321 features" in figure(page, "Model")
        assert "9" in figure(page, "Dead letters")
        assert column(page, "dead", 1) == ["bad_label", "not_json"]
        assert column(page, "dead", 2) == column(page, "dead", 3) == ["7", "2"]
        assert column(page, "classes", 2) == ["75.0 %", "25.0 %"]


def test_the_page_follows_the_daemon_without_a_reload(browser: Browser, daemon: Watched) -> None:
    daemon.show(status(state="restoring", not_ready="restoring the model", restore_remaining=400))
    with looking(browser, daemon) as page:
        expect(page.locator("#state")).to_have_text("restoring")
        expect(page.locator("#reason")).to_contain_text("400 events to learn")
        expect(page.locator("#progress")).to_be_visible()
        daemon.show(status(model=model({"spam": 4321.0})))
        expect(page.locator("#state")).to_have_text("running")
        expect(page.locator("#banner")).to_be_hidden()
        assert "4,321" in figure(page, "Model")


def test_a_reason_for_not_being_ready_is_shown(browser: Browser, daemon: Watched) -> None:
    daemon.show(status(not_ready="no broker has answered for 12 s"))
    with looking(browser, daemon) as page:
        expect(page.locator("#reason")).to_have_text("Not ready: no broker has answered for 12 s")
        expect(page.locator("#progress")).to_be_hidden()
        expect(page).to_have_title("fraud: not ready")


def test_a_daemon_that_goes_away_is_noticed(browser: Browser, daemon: Watched) -> None:
    daemon.show(status())
    page = browser.new_page()
    page.goto(daemon.web.url)
    expect(page.locator("#state")).to_have_text("running")
    daemon.web.stop()
    expect(page.locator("#state")).to_have_text("no answer")
    expect(page.locator("#reason")).to_contain_text("No answer from the daemon since")
    page.close()


def test_scores_over_time_become_lines(browser: Browser, daemon: Watched) -> None:
    daemon.show(status(scores=scores(100, 50)))
    wait_until(lambda: httpx.get(daemon.web.url + "/model?since=0").json()["history"]["rows"])
    with looking(browser, daemon) as page:
        daemon.show(status(scores=scores(200, 140)))
        daemon.metrics.stepped(counted_step(events=100))
        accuracy = page.locator(".chart").first
        expect(accuracy.locator(".key")).to_contain_text("model 90.0 %")
        expect(accuracy.locator("svg text").first).to_contain_text("%")


def test_a_drift_is_marked_where_it_was_found(browser: Browser, daemon: Watched) -> None:
    daemon.show(status(scores=scores(100, 90)))
    wait_until(lambda: httpx.get(daemon.web.url + "/model?since=0").json()["history"]["rows"])
    with looking(browser, daemon) as page:
        drift = Drift(150, 0.1, 0.45)
        daemon.show(status(scores=scores(200, 140, drifts=(drift,), drifts_worse=1)))
        expect(page.locator("svg .drift.worse")).to_have_count(2)
        expect(page.locator("svg .drift title").first).to_have_text("drift at event 150: error 10.0 % → 45.0 %")
        assert "worse" in figure(page, "Drift")
        assert "error 10.0 % → 45.0 % at event 150; so far 1 worse, 0 better" in figure(page, "Drift")


def test_confusion_calibration_and_top_features_are_shown(browser: Browser, daemon: Watched) -> None:
    told = {"spam": (TopFeature("text=win", 0.5, "share", 0.25, 0.01), TopFeature("amount", 0.4, "mean", 12.5, 3.0))}
    daemon.show(
        status(
            model=model({"spam": 30.0, "ham": 70.0}),
            scores=scores(100, 85, calibration=(Bin(),) * 8 + (Bin(40, 30, 34.0), Bin(60, 55, 57.0))),
            confusion=Confusion(("spam", "ham"), ((20, 10, 0), (5, 65, 0), (0, 0, 0))),
            top_features=TopFeatures(100, classes=told),
        )
    )
    with looking(browser, daemon) as page:
        assert page.locator("#confusion thead th").all_text_contents() == ["", "ham", "spam"]
        assert page.locator("#confusion tbody tr").all_inner_texts() == ["ham\t65\t5", "spam\t10\t20"]
        assert page.locator("#calibration circle").count() == 2
        assert "6.0 %" in figure(page, "Calibration error")
        assert page.locator("#features td span").all_text_contents() == ["text=win 25.0 % (1.0 %)", "amount 12.5 (3)"]


def test_a_confusion_of_fifty_classes_shows_ten_and_the_rest_together(browser: Browser, daemon: Watched) -> None:
    labels = tuple(f"class {i:02}" for i in range(50))
    counts = tuple(tuple(i + 1 if i == k else 1 for k in range(51)) for i in range(51))
    daemon.show(status(confusion=Confusion(labels, counts)))
    with looking(browser, daemon) as page:
        shown = page.locator("#confusion thead th").all_text_contents()
        assert shown == ["", *(f"class {i}" for i in range(49, 39, -1)), "40 others"]
        cells = page.locator("#confusion tbody td").all_text_contents()
        assert sum(int(text.replace(",", "")) for text in cells) == sum(map(sum, counts))


def test_names_are_text_and_never_markup(browser: Browser, daemon: Watched) -> None:
    reason = "<b>bold</b>"
    daemon.show(
        status(
            app=HOSTILE[0],
            not_ready=reason,
            model=model(dict.fromkeys(HOSTILE, 1.0)),
            scores=class_scores(HOSTILE, 10, 5),
            partitions=partitions(HOSTILE[1], [labelled()]),
            confusion=Confusion(tuple(HOSTILE), ((1,) * 9,) * 9),
            top_features=TopFeatures(
                9, classes={name: (TopFeature(name, 1.0, "share", 0.5, 0.1),) for name in HOSTILE}
            ),
        )
    )
    with looking(browser, daemon) as page:
        assert set(HOSTILE[:-1]) <= set(page.locator("#features td b").all_text_contents())
        assert set(HOSTILE[:-1]) <= set(column(page, "confusion", 1))
        expect(page.locator("#app")).to_have_text(HOSTILE[0])
        shown = column(page, "classes", 1)
        assert set(HOSTILE[:-1]) <= set(shown)
        assert max(map(len, shown)) < 100
        assert column(page, "classes", 4) == ["50.0 %"] * len(HOSTILE)
        assert column(page, "partitions", 1) == [HOSTILE[1]]
        assert page.locator("#reason").text_content() == f"Not ready: {reason}"
        assert page.locator("script").count() == 1
        assert page.locator("main img").count() == 0
        assert page.evaluate("window.hacked") is None


def test_the_policy_keeps_any_other_script_from_running(browser: Browser, daemon: Watched) -> None:
    daemon.show(status())
    page = browser.new_page()
    refusals: list[str] = []
    page.on("console", lambda message: refusals.append(message.text))
    page.goto(daemon.web.url)
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
        " document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x'; }"
    )
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in refusal for refusal in refusals)
    page.close()


@pytest.mark.parametrize(("table", "all_rows"), [("classes", 50), ("partitions", 200)])
def test_a_long_table_begins_short_and_opens(browser: Browser, daemon: Watched, table: str, all_rows: int) -> None:
    labels = [f"class {i:02}" for i in range(50)]
    daemon.show(
        status(
            model=model({label: float(i) for i, label in enumerate(labels)}),
            scores=class_scores(labels, 5, 4),
            partitions=partitions("in", [labelled(i, 2 * i, owned=i % 2 == 0) for i in range(200)]),
        )
    )
    with looking(browser, daemon) as page:
        rows, button = page.locator(f"#{table} tbody tr"), page.locator(f"#{table}-more")
        expect(rows).to_have_count(10)
        button.click()
        expect(rows).to_have_count(all_rows)
        expect(button).to_have_text("Show fewer")
        button.click()
        expect(rows).to_have_count(10)


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_the_page_is_never_wider_than_the_window(browser: Browser, daemon: Watched, width: int) -> None:
    daemon.show(
        status(
            app="a" * 100,
            not_ready="b" * 200,
            model=model({"spam": 123456789.0, "h" * 200: 5.0}),
            partitions=partitions("topic-with-a-long-name." * 8, [labelled(10**12, 10**13)] * 3),
            confusion=Confusion(("spam", "h" * 200), ((10**9, 1, 0), (1, 10**9, 0), (0, 0, 0))),
            top_features=TopFeatures(9, classes={"h" * 200: (TopFeature("f" * 120, 1.0, "share", 0.5, 0.1),) * 8}),
        )
    )
    with looking(browser, daemon, width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, daemon: Watched, scheme: str) -> None:
    daemon.show(status(not_ready="no duty", model=model({"spam": 1.0}), partitions=partitions("in", [labelled()])))
    with looking(browser, daemon, scheme=scheme) as page:
        contrasts = {text: page.evaluate(CONTRAST, text) for text in TEXTS}
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert min(contrasts.values()) >= 4.5, contrasts
    assert (luminance(ground) < 0.1) == (scheme == "dark")


def test_without_scripts_the_page_says_where_the_facts_are(browser: Browser, daemon: Watched) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(daemon.web.url)
    expect(page.get_by_role("link", name="/model")).to_be_visible()
    context.close()


# The contrast of WCAG 2 between an element's text and the first ground behind it that is not see-through.
CONTRAST = """(selector) => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let node = document.querySelector(selector);
  const ink = light(getComputedStyle(node).color);
  while (getComputedStyle(node).backgroundColor === "rgba(0, 0, 0, 0)" && node.parentElement) node = node.parentElement;
  const ground = light(getComputedStyle(node).backgroundColor);
  return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
}"""


def luminance(colour: str) -> float:
    """Of an `rgb(r, g, b)` without gamma: enough to tell light from dark."""
    return sum(map(float, colour.removeprefix("rgb(").removesuffix(")").split(","))) / (3 * 255)
