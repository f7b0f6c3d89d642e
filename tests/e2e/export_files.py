"""What tests of saved files share: how one is saved, and what may be in it."""

import csv
import io
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"
ALLOWED = {SVG + name for name in ("svg", "title", "g", "path", "text", "image", "clipPath")}


def save(page, scope, name, choice):
    """The file that an entry of a chart's menu saves."""
    scope.get_by_role("button", name=f"Save {name}").first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name=choice).click()
    return download.value


def table(file):
    """The rows of a saved table, by the names of their columns."""
    return list(csv.DictReader(io.StringIO(file.path().read_text(), newline="")))


def checked(text):
    """The elements of a drawing that holds nothing but shapes and text of our own."""
    root = ET.fromstring(text)
    found = list(root.iter())
    assert {element.tag for element in found} <= ALLOWED
    for element in found:
        for key, value in element.attrib.items():
            assert not key.lower().startswith("on")
            assert "javascript" not in value.lower()
            if key.endswith("href"):
                assert value.startswith("data:image/png;base64,")
    return found


def texts(file):
    """The texts of a saved drawing, once it is known to be harmless."""
    return [element.text for element in checked(file.path().read_text()) if element.tag == SVG + "text"]
