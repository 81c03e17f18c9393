"""The page of a conformance run in a real browser, 10,000 cases and hostile
names."""

import json
import subprocess

import pytest
from conftest import find_program
from screenshot import open_report
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

CASES = 10_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folder with run.* (one case of every kind) and large.*."""
    folder = tmp_path_factory.mktemp("runs")
    subprocess.run([find_program("run_sample"), folder, str(CASES)],
                   check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture
def small(browser, runs):
    open_report(browser, runs / "run.html")
    return browser


@pytest.fixture(scope="module")
def large(browser, runs):
    open_report(browser, runs / "large.html")
    return browser


def wait_for(page, condition):
    WebDriverWait(page, 10).until(lambda d: condition())


def hint(page):
    return page.find_element(By.ID, "rows-hint").text


def grid_rows(page):
    return page.find_elements(By.CSS_SELECTOR, ".grid-row")


def detail(page):
    return page.find_element(By.ID, "detail").text


def test_large_page_filters_and_sorts(large, runs):
    report = json.loads((runs / "large.json").read_text())
    assert hint(large) == f"{CASES:,} cases"
    assert 10 < len(grid_rows(large)) < 80
    large.find_element(By.CSS_SELECTOR, ".chip.mismatch").click()
    mismatches = report["counts"]["mismatch"]
    assert hint(large) == f"{mismatches:,} of {CASES:,} cases"
    large.find_element(By.CSS_SELECTOR, "[data-key='error'] button").click()
    values = large.execute_script(
        "return table.order.slice(0, 500).map((i) => errors[i])")
    assert values == sorted(values, reverse=True)
    large.execute_script("clearFilters()")
    large.find_elements(By.CSS_SELECTOR, "#modules tbody th button")[3].click()
    assert hint(large) == f"500 of {CASES:,} cases"
    large.execute_script("clearFilters()")
    field = large.find_element(By.ID, "search")
    field.send_keys("MODULE3/ hidden=1700")
    wait_for(large, lambda: hint(large) == f"1 of {CASES:,} cases")
    field.send_keys(Keys.ESCAPE)
    assert hint(large) == f"{CASES:,} cases"


def test_loads_without_errors_or_requests(small):
    assert small.title == "Assay: mismatch, assay-cpu"
    severe = [e for e in small.get_log("browser") if e["level"] == "SEVERE"]
    assert severe == []
    requested = small.execute_script(
        "return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in requested if not name.startswith("data:")] == []


def test_says_what_was_not_compared(small):
    banner = small.find_element(By.ID, "banner").text
    assert "3 of 8 cases differ" in banner
    assert "pass rate 37.5 %" in banner
    assert "1 refused, 1 crashed, 1 stale golden" in banner
    stale = small.find_element(By.ID, "stale").text
    assert "no failure of numbers" in stale
    assert "the golden is of spec 41c2, this one is 9ab0" in stale


def test_selects_the_first_mismatch(small):
    text = detail(small)
    assert "linear/small-3f09a1c2" in text
    assert "|alpha - 1| 4.1e-03 over 2.4e-04" in text
    assert 'golden "bfloat16", target "float32"' in text
    assert "1.8× of the time of its baseline" in text
    assert "--only linear/small-3f09a1c2" in text
    assert "mxfp8" in text
    # Beyond 2^53, every digit of it.
    assert "18364758544493064720" in text


def test_module_rows_lead_to_their_cases(small):
    rows = small.find_elements(By.CSS_SELECTOR, "#modules tbody tr")
    assert [r.get_attribute("class") for r in rows] == [
        "match", "mismatch", "mismatch"]
    assert "2/2" in rows[0].text and "100 %" in rows[0].text
    assert "1/5" in rows[1].text and "20.0 %" in rows[1].text
    rows[1].find_element(By.CSS_SELECTOR, "th button").click()
    assert hint(small) == "5 of 8 cases"
    worst = rows[0].find_element(By.CSS_SELECTOR, ".worst button")
    worst.click()
    assert "gelu/small-44556677" in detail(small)
    assert hint(small) == "8 cases"  # the filter gave way


def test_a_crash_shows_its_log(small):
    small.execute_script("chooseNamed('linear/small-77e0d4aa')")
    text = detail(small)
    assert "signal 11" in text
    assert "run/logs/linear-small-77e0d4aa.log" in text
    assert small.execute_script("return location.hash").endswith(
        "linear%2Fsmall-77e0d4aa")


def test_api_coverage(small):
    text = small.find_element(By.ID, "api").text
    assert "5 of 7 names guarded, 77.5 % of 120 uses" in text
    assert "transformer_engine.pytorch.LayerNormMLP" in text


def test_hostile_names_are_text(small):
    assert small.execute_script("return document.images.length") == 0
    assert small.execute_script(
        "return document.querySelectorAll('script').length") == 2
    small.execute_script("choose(7, true)")
    assert "</script><img src=x onerror=alert(1)>" in detail(small)
    assert "<img src=x onerror=alert(1)>" in small.find_element(
        By.ID, "modules").text


def test_narrow_page_does_not_scroll_sideways(small):
    size = {"width": 420, "height": 900, "deviceScaleFactor": 1,
            "mobile": False}
    small.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert small.execute_script(
            "return document.documentElement.scrollWidth") <= 420
    finally:
        size.update(width=1500, height=1100)
        small.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
