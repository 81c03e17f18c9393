"""The page of compared training runs in a real browser."""

import json
import math
import random
import subprocess

import pytest
from conftest import find_program
from screenshot import open_report
from selenium.webdriver.common.by import By

HOSTILE = "<img src=x onerror=alert(1)></script>"


def write_log(path, seed, drift, speed, facts):
    noise = random.Random(seed)
    with open(path, "w") as log:
        log.write(json.dumps({"format": "assay-watch", "version": 1,
                              **facts}) + "\n")
        for step in range(1, 301):
            late = drift * max(0, step - 150)
            log.write(json.dumps({
                "step": step,
                "loss": 2 + 3 * math.exp(-step / 40) + late +
                        noise.gauss(0, 0.02),
                "grad_norm": 1 + abs(noise.gauss(0, 0.1)),
                "tokens_per_second": speed, "peak_rss_bytes": 3e9}) + "\n")
    return path


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")

    def log(name, seed, drift=0.0, speed=1000, **facts):
        return write_log(folder / f"{name}.jsonl", seed, drift, speed,
                         {"device": "cuda", "command": name, **facts})

    runs = [log("gpu", 0), log("good", 1, speed=1200),
            log("bad", 2, drift=0.002, speed=800, device="npu",
                command=HOSTILE)]
    result = subprocess.run(
        [find_program("assay"), "compare-runs", *runs, "--seeds",
         log("s1", 3), log("s2", 4), log("s3", 5), "--html",
         folder / "runs.html"], capture_output=True, text=True)
    assert result.returncode == 1, result.stderr
    return folder / "runs.html"


@pytest.fixture
def page(browser, page_file):
    open_report(browser, page_file)
    return browser


def texts(page, selector):
    return [e.text for e in page.find_elements(By.CSS_SELECTOR, selector)]


def test_loads_without_errors_or_requests(page):
    assert page.title == "Assay: mismatch, training runs"
    assert [e for e in page.get_log("browser")
            if e["level"] == "SEVERE"] == []
    requested = page.execute_script(
        "return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in requested if not name.startswith("data:")] == []


def test_says_which_run_leaves_the_band_and_where(page):
    banner = page.find_element(By.ID, "banner").text
    assert "Loss of bad.jsonl leaves the band for good at step" in banner
    rows = texts(page, "#rows tbody tr")
    assert len(rows) == 4
    assert rows[0].startswith("✓match") or rows[0].startswith("✓ match")
    assert "mismatch" in rows[2] and "bad.jsonl" in rows[2]
    assert "band of 4 reference runs" in page.find_element(By.ID, "rule").text


def test_draws_the_curves_over_the_band(page):
    sets = page.execute_script("""
        const chart = charts.find((c) => c.panel.figure === 'loss').chart;
        return chart.data.datasets.map((s) => [s.data.length, s.fill ?? '']);
    """)
    # Both edges of the band, three runs, the circle where one leaves.
    assert sets == [[300, False], [300, "-1"], [300, ""], [300, ""],
                    [300, ""], [1, ""]]
    band = page.execute_script("return page.panels[0]")
    assert all(low < high for low, high in zip(band["low"], band["high"]))
    # Ink: the canvas is not blank.
    assert page.execute_script("""
        const canvas = charts[0].canvas;
        const pixels = canvas.getContext('2d')
          .getImageData(0, 0, canvas.width, canvas.height).data;
        return pixels.some((v) => v > 0);
    """)


def test_the_axis_becomes_logarithmic_and_back(page):
    button = page.find_element(By.CSS_SELECTOR, "#figure-loss button.log")
    kind = "return charts[0].chart.options.scales.y.type"
    assert page.execute_script(kind) == "linear"
    button.click()
    assert page.execute_script(kind) == "logarithmic"
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert page.execute_script(kind) == "linear"


def test_the_second_half_alone_has_an_axis_of_its_own(page):
    button = page.find_element(By.CSS_SELECTOR, "#figure-loss button.late")
    shown = ("const s = charts[0].chart.scales;"
             "return [s.x.min, s.y.max, charts[1].chart.scales.x.min]")
    assert page.execute_script(shown)[1] > 4
    button.click()
    first, top, below = page.execute_script(shown)
    assert first == below == 151 and top < 3
    button.click()
    assert page.execute_script(shown)[0] == 1


def test_speed_and_memory_are_shown_beside_the_reference(page):
    panels = texts(page, ".panel header")
    assert any("Tokens per second" in p and "1.2×, 0.8×" in p for p in panels)
    assert any("Peak memory of the process" in p for p in panels)


def test_what_ran_marks_what_differs_and_is_text(page):
    marked = texts(page, "#what td.differs")
    assert "npu" in marked and HOSTILE in marked
    assert page.execute_script("return document.images.length") == 0
    assert page.execute_script(
        "return document.querySelectorAll('script').length") == 3


def test_the_theme_redraws_every_chart(page):
    color = "return charts[0].chart.options.scales.y.grid.color"
    before = page.execute_script(color)
    page.find_element(By.ID, "theme").click()
    assert page.execute_script(color) != before
    page.find_element(By.ID, "theme").click()


def test_narrow_page_does_not_scroll_sideways(page):
    size = {"width": 420, "height": 900, "deviceScaleFactor": 1,
            "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert page.execute_script(
            "return document.documentElement.scrollWidth") <= 420
    finally:
        size.update(width=1500, height=1100)
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
