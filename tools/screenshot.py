#!/usr/bin/env python3
"""Takes a picture of an HTML report: screenshot.py HTML PNG [--dark]
[--select NAME] [--size 1600x1400] [--full]. Needs selenium and Debian's
chromium and chromium-driver."""

import argparse
import pathlib
import time
import urllib.parse

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait


def start_browser(width, height, dark):
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    if dark:
        options.add_argument("--force-dark-mode")
    driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
    # The window's frame takes room: the page itself gets the asked size.
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1,
         "mobile": False},
    )
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme",
                       "value": "dark" if dark else "light"}]},
    )
    return driver


def open_report(driver, html, select=None):
    url = pathlib.Path(html).resolve().as_uri()
    if select:
        url += "#" + urllib.parse.quote(select, safe="")
    driver.get(url)
    WebDriverWait(driver, 60).until(
        lambda d: d.execute_script(
            "return document.documentElement.dataset.ready === 'true'"
        )
    )
    time.sleep(0.4)  # fonts and the charts' first frame


def full_height(driver, width):
    height = driver.execute_script("return document.documentElement.scrollHeight")
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1,
         "mobile": False},
    )
    time.sleep(0.4)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("html")
    parser.add_argument("png")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--select", metavar="NAME", help="row to select")
    parser.add_argument("--size", default="1600x1400", help="WIDTHxHEIGHT")
    parser.add_argument("--full", action="store_true", help="the whole page")
    arguments = parser.parse_args()
    width, height = map(int, arguments.size.split("x"))
    driver = start_browser(width, height, arguments.dark)
    try:
        open_report(driver, arguments.html, arguments.select)
        if arguments.full:
            full_height(driver, width)
        driver.save_screenshot(arguments.png)
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
