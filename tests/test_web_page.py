"""The web board in a real browser: clicks, keys, touches and pixels, against the real server."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("uvicorn", reason="the web board's server needs uvicorn")

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HANG = 60.0  # seconds after which a wait has failed, on any machine
SGF = "(;FF[4]GM[4]SZ[6]PB[Ada]PW[Bo];B[cc];W[dd];B[cd])"


def browser_path() -> str | None:
    """A system's Chromium; None leaves the choice to playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


@pytest.fixture(scope="module")
def address():
    """A server of its own on a free port."""
    arguments = ["--agent", "6x6x4", "--port", "0", "--simulations", "24"]
    code = "import sys; from gomoku_jax.play.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "web", *arguments]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        seen = []
        for line in server.stdout:
            seen.append(line)
            if "http://" in line:
                break
        else:
            pytest.fail(f"the server did not start: {''.join(seen)}")
        words = [word for word in seen[-1].split() if word.startswith("http://")]
        yield words[0].rstrip("/.")
        server.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()


@pytest.fixture(scope="module")
def browser():
    with playwright_api.sync_playwright() as playwright:
        path = browser_path()
        if path is None and not pathlib.Path(playwright.chromium.executable_path).exists():
            pytest.skip(
                "no Chromium here: neither on the path nor playwright's own (playwright install chromium)"
            )
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def faults():
    """What went wrong in the browser; a test fails where something did."""
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def open_page(browser, address, faults):
    """Opens the board as a new visitor; both sides are persons unless told otherwise."""
    contexts = []

    def open_one(fragment: str = "", white: str = "person", **options):
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        contexts.append(context)
        sides = f'{{"players": {{"1": "person", "-1": "{white}"}}}}'
        context.add_init_script(f"localStorage['gomoku-settings'] ??= '{sides}'")
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda sent: address in sent.url or faults.append(f"request to {sent.url}"))
        page.on(
            "websocket", lambda socket: address[7:] in socket.url or faults.append(f"socket to {socket.url}")
        )
        page.goto(f"{address}/{fragment}")
        until(page, "gomoku.connected && gomoku.judged")
        return page

    yield open_one
    for context in contexts:
        context.close()


def until(page, condition: str) -> None:
    """Waits for a condition. The page's policy forbids Playwright's `wait_for_function`, an eval."""
    deadline = time.monotonic() + HANG
    while not page.evaluate(f"Boolean(window.gomoku && ({condition}))"):
        assert time.monotonic() < deadline, f"never: {condition}; {page.evaluate('gomoku.moves')}"
        time.sleep(0.02)


def point(page, name: str) -> int:
    width = page.evaluate("gomoku.game.width")
    return (int(name[1:]) - 1) * width + ord(name[0]) - ord("a")


def click(page, name: str, tap: bool = False) -> None:
    """Clicks a point and waits until the rules have judged it."""
    place = page.evaluate("action => gomoku.place(action)", point(page, name))
    if tap:
        page.locator("#board").tap(position=place)
    else:
        page.locator("#board").click(position=place)


def play(page, *names: str) -> None:
    for name in names:
        before = page.evaluate("gomoku.moves.length")
        click(page, name)
        until(page, f"gomoku.moves.length > {before} && gomoku.judged")


def moves(page) -> list[int]:
    return page.evaluate("gomoku.moves")


def pixels(page) -> str:
    return page.evaluate("document.getElementById('board').toDataURL()")


def test_a_game_is_clicked_from_start_to_win(open_page):
    page = open_page("#board=3x3x3")
    empty = pixels(page)
    play(page, "b2", "a1", "b1", "c1", "b3")
    until(page, "gomoku.over")
    assert moves(page) == [4, 0, 1, 2, 7]
    assert page.evaluate("gomoku.winner") == 1
    assert pixels(page) != empty
    assert page.inner_text("#status-text") == "Black wins with 3 in a row"
    assert "Black b3. Black wins" in page.inner_text("#announce")
    click(page, "a3")  # nothing is played after the end
    page.wait_for_selector("text=The game is over")
    assert len(moves(page)) == 5
    page.click("#new-game")
    page.fill("#height", "4")
    page.fill("#width", "7")
    page.fill("#k", "9")
    assert "from 3 to 7" in page.inner_text("#new-error")
    assert page.is_disabled("#start")
    page.fill("#k", "4")
    page.check("[name=rule][value=exact]")
    page.click("#start")
    until(
        page,
        "gomoku.game.height === 4 && gomoku.game.width === 7 && gomoku.moves.length === 0 && gomoku.judged",
    )
    place = page.evaluate("gomoku.place(27)")
    box = page.locator("#board").bounding_box()
    # The upper right corner: rows count from the bottom.
    assert place["x"] > 0.85 * box["width"] and place["y"] < 0.2 * box["height"]
    page.locator("#board").click(position=place)
    until(page, "gomoku.moves.join() === '27' && gomoku.judged")


def test_an_agent_answers_until_somebody_wins(open_page):
    page = open_page("#board=6x6x4", white="6x6x4")
    while not page.evaluate("gomoku.over"):
        before = moves(page)
        free = next(action for action in (0, 5, 30, 35, 2, 33, 12, 17, *range(36)) if action not in before)
        place = page.evaluate("action => gomoku.place(action)", free)
        page.locator("#board").click(position=place)
        until(page, f"gomoku.judged && (gomoku.over || gomoku.moves.length === {len(before) + 2})")
        assert moves(page)[: len(before) + 1] == [*before, free]
    assert page.evaluate("gomoku.winner") == -1  # against stones in the corners
    page.click("#undo")  # back to the person's turn
    assert len(moves(page)) % 2 == 0
    assert not page.evaluate("gomoku.over")


def test_the_heat_map_changes_while_a_search_runs(open_page):
    page = open_page("#board=6x6x4&moves=c3d4c4")
    page.click("label:has(> [value=prior])")
    assert "press Analyse" in page.inner_text("#legend-text")
    page.click("label:has(> [value=visits])")
    page.click("#analyse")
    until(page, "gomoku.lastAnalysis?.simulations > 0 && gomoku.overlayCells.length")
    frames = []
    for _ in range(2):
        seen = page.evaluate("[gomoku.lastAnalysis, gomoku.overlayCells.map(c => [c.action, c.value])]")
        frames.append((seen[0], seen[1], pixels(page)))
        until(
            page,
            f"gomoku.lastAnalysis.simulations > 1.5 * {seen[0]['simulations']} || gomoku.lastAnalysis.done",
        )
    (early, early_cells, early_pixels), (late, late_cells, late_pixels) = frames
    assert late["simulations"] > early["simulations"]
    assert late["visits"] != early["visits"]
    assert late_cells != early_cells
    assert late_pixels != early_pixels
    # The numbers are the visits' shares of this very frame, and none is on a stone.
    total = sum(late["visits"])
    assert {action for action, _ in late_cells} == {a for a, count in enumerate(late["visits"]) if count}
    assert all(value == pytest.approx(late["visits"][action] / total) for action, value in late_cells)
    assert not {action for action, _ in late_cells} & set(moves(page))
    legend = page.inner_text("#legend-text")
    assert legend.startswith("Visits:") and "for White, who is to move" in legend
    page.wait_for_selector("#candidates tr")
    page.click("#analyse")
    until(page, "!gomoku.thinking && gomoku.lastAnalysis.done")

    # The other layers say what they are, and show other numbers.
    page.keyboard.press("2")
    legend = page.inner_text("#legend-text")
    assert legend.startswith("Prior:") and "not the search’s result" in legend
    prior = page.evaluate("gomoku.overlayCells.map(c => [c.action, c.value])")
    frame = page.evaluate("gomoku.lastAnalysis")
    assert prior == [[a, p] for a, p in enumerate(frame["prior"]) if p >= 0.005]
    page.keyboard.press("3")
    legend = page.inner_text("#legend-text")
    assert legend.startswith("Q:") and "for White, who is to move; −1 loses, +1 wins" in legend
    q = page.evaluate("gomoku.overlayCells.map(c => [c.action, c.value, c.long])")
    assert [[action, value] for action, value, _ in q] == [
        [a, value] for a, value in enumerate(frame["q"]) if value is not None
    ]
    assert all(text.lstrip("+−") == f"{abs(value):.2f}" for _, value, text in q)

    # A row of the list shows its line on the board.
    page.mouse.move(2, 2)
    time.sleep(0.1)
    plain = pixels(page)
    page.hover("#candidates tr:first-child")
    time.sleep(0.1)
    assert pixels(page) != plain
    page.keyboard.press("0")
    assert page.evaluate("gomoku.overlay") == "none"


def test_a_forbidden_point_is_marked_and_refused(open_page):
    """Three and two of Black's, which e1 would join to six."""
    page = open_page("#board=5x7x5&rule=renju&moves=b1a3c1c3d1e3f1g3g1a5")
    assert page.inner_text("#game-name") == "5×7, renju, five in a row"
    before = moves(page)
    click(page, "e1")
    page.wait_for_selector(".toast:has-text('e1 cannot be played here: it is forbidden to Black')")
    assert moves(page) == before
    play(page, "e2")
    assert moves(page) == [*before, 11]


def test_undo_redo_and_branches(open_page):
    page = open_page("#board=6x6x4")
    play(page, "c3", "d4", "e5")
    assert page.url.endswith("#board=6x6x4&rule=freestyle&moves=c3d4e5")
    page.click("#undo")
    page.click("#undo")
    assert moves(page) == [14]
    page.click("#redo")
    assert moves(page) == [14, 21]
    page.keyboard.press("Control+z")
    play(page, "a1")  # a branch
    assert moves(page) == [14, 0]
    chips = page.locator("#variations .chip")
    assert chips.all_inner_texts() == ["d4", "a1"]
    chips.first.click()
    assert moves(page) == [14, 21]
    page.keyboard.press("End")
    assert moves(page) == [14, 21, 28]  # nothing is lost
    page.reload()
    until(page, "gomoku.judged && gomoku.moves.length === 3")
    page.keyboard.press("u")
    assert page.locator("#variations .chip").all_inner_texts() == ["d4", "a1"]
    # The value graph has a point for each position, and leads back to them.
    until(page, "document.querySelector('#graph .network-line')?.points.length === 4")
    box = page.locator("#graph").bounding_box()
    page.mouse.click(box["x"] + 31, box["y"] + 40)
    assert moves(page) == []


def test_games_are_pasted_copied_and_refused(open_page):
    page = open_page("#board=6x6x4")
    paste = """text => {
        const data = new DataTransfer();
        data.setData("text/plain", text);
        document.body.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true}));
    }"""
    page.evaluate(paste, "c3d4c4")
    until(page, "gomoku.moves.join() === '14,21,20'")
    page.click("#tab-record")
    page.fill("#paste", SGF)
    page.click("#load")
    until(page, "gomoku.moves.join() === '20,15,14'")  # cc is c4, rows from the top in the file
    page.wait_for_selector("text=Ada against Bo")
    damaged = "(;FF[4]GM[4]SZ[6]\n;B[cc];W[zz])"
    page.fill("#paste", damaged)
    page.click("#load")
    page.wait_for_selector("#paste-error:visible")
    message = page.inner_text("#paste-error")
    assert "line 2, column " in message
    assert moves(page) == [20, 15, 14]
    assert page.input_value("#paste") == damaged
    with page.expect_download() as download:
        page.click("#save-sgf")
    text = pathlib.Path(download.value.path()).read_text()
    assert "GM[4]" in text and ";B[cc];W[dd];B[cd]" in text.replace("\n", "")


def test_the_address_holds_the_position(open_page):
    page = open_page("#board=4x7x4&rule=exact&moves=a4g1c2")
    assert page.evaluate("gomoku.game") == {"height": 4, "width": 7, "k": 4, "rule": "exact"}
    assert moves(page) == [21, 6, 9]
    page.evaluate("location.hash = '#board=3x3x3&moves=b2'")
    until(page, "gomoku.game.width === 3 && gomoku.moves.join() === '4' && gomoku.judged")
    for bad, said in (
        ("#board=99x3x3", "99; from 3 to 26"),
        ("#board=3x3x3&moves=z9", "z9 is not on the board"),
        ("#board=3x3x3&moves=a1b1a2b2a3b3", "move 6"),
    ):
        page.evaluate("fragment => location.hash = fragment", bad)
        page.wait_for_selector(f".toast.error:has-text('{said}')")
        assert moves(page) == [4]


def test_a_narrow_screen_and_touch(open_page):
    page = open_page("#board=6x6x4", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    for tab in ("analysis", "feedback", "record"):
        page.locator(f"#tab-{tab}").tap()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator("#board").bounding_box()["width"] > 330
    page.evaluate("scrollTo(0, 0)")
    click(page, "c3", tap=True)
    until(page, "gomoku.moves.join() === '14' && gomoku.judged")
    heights = page.evaluate(
        "[...document.querySelectorAll('button')].map(b => b.offsetHeight).filter(h => h)"
    )
    assert min(heights) >= 40
    # On small cells the first tap marks and the second plays.
    page.evaluate("location.hash = '#board=15x15x5'")
    until(page, "gomoku.game.width === 15 && gomoku.judged")
    click(page, "h8", tap=True)
    assert page.evaluate("gomoku.marked") == 112
    assert moves(page) == []
    click(page, "h8", tap=True)
    until(page, "gomoku.moves.join() === '112'")
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_game_by_keyboard_alone(open_page):
    page = open_page("#board=3x3x3")
    page.evaluate("document.activeElement.blur()")

    def go(*keys: str) -> None:
        before = page.evaluate("gomoku.moves.length")
        for key in keys:
            page.keyboard.press(key)
        until(page, f"gomoku.moves.length === {before + 1} && gomoku.judged")

    go("ArrowUp", "Enter")  # the first arrow wakes the cursor, in the middle
    go("ArrowLeft", "Enter")
    go("ArrowRight", "ArrowUp", "Enter")
    go("ArrowLeft", "Space")
    go("ArrowRight", "ArrowDown", "ArrowDown", "Enter")
    assert moves(page) == [4, 3, 7, 6, 1]
    assert page.evaluate("gomoku.winner") == 1
    page.keyboard.press("?")
    assert page.is_visible("#help-dialog")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    until(page, "gomoku.moves.length === 0 && gomoku.judged")


def test_rollouts_beside_the_network(open_page):
    page = open_page("#board=3x3x3&moves=b2a1b1c1")
    page.click("#tab-feedback")
    page.fill("#playouts", "50")
    page.click("#compare")
    page.wait_for_selector("#comparison tr")
    page.click("#paint-rollouts")
    assert page.inner_text("#feedback-text").startswith("Rollouts: mean result for Black, who is to move")
    cells = {cell["action"]: cell["value"] for cell in page.evaluate("gomoku.overlayCells")}
    assert set(cells) == {3, 5, 6, 7, 8}
    assert cells[7] == 1.0  # b3 wins at once
    page.click("#paint-network")
    cells = {cell["action"]: cell["value"] for cell in page.evaluate("gomoku.overlayCells")}
    assert cells[7] == 1.0
    assert page.inner_text("#feedback-text").startswith("Network value:")


def test_agents_play_each_other_and_can_be_stopped(open_page):
    page = open_page("#board=6x6x4", white="6x6x4")
    page.select_option("#black", "6x6x4")
    until(page, "gomoku.moves.length >= 3")
    page.click("#pause")
    until(page, "!gomoku.thinking")
    stopped = len(moves(page))
    page.click("#step")
    until(page, f"gomoku.moves.length === {stopped + 1} && !gomoku.thinking")
    time.sleep(0.3)
    assert len(moves(page)) == stopped + 1
    page.reload()  # comes back paused, with the same game
    until(page, f"gomoku.judged && gomoku.moves.length === {stopped + 1}")
    page.select_option("#delay", "0")
    page.click("#pause")
    until(page, "gomoku.over")


def test_light_and_dark(open_page):
    pictures = []
    for scheme in ("light", "dark"):
        page = open_page("#board=6x6x4&moves=c3", color_scheme=scheme)
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        pictures.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert pictures[0] != pictures[1]
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.reload()
    until(page, "gomoku.judged")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def begin(page, opening: str) -> None:
    """A new game on the same board."""
    page.click("#new-game")
    page.check(f"[name=opening][value={opening}]")
    page.click("#start")


def test_a_point_that_the_opening_closes_is_refused(open_page):
    page = open_page("#board=6x6x4&opening=pro&moves=c3d4")
    assert page.inner_text("#game-name") == "6×6, four in a row, pro opening"
    click(page, "e5")
    page.wait_for_selector(".toast:has-text('e5: the pro opening has Black')")
    assert "second stone at least 3 points away from c3" in page.inner_text("#toasts")
    assert moves(page) == [14, 21]
    play(page, "f1")
    assert page.url.endswith("#board=6x6x4&rule=freestyle&opening=pro&moves=c3d4f1")
    page.click("#new-game")
    assert page.is_checked("[value=pro]") and page.is_disabled("[value=long_pro]")
    assert "needs a side of 8 or more" in page.inner_text("label:has([value=long_pro])")
    page.click("#start")
    until(page, "gomoku.game.opening === 'pro' && gomoku.moves.length === 0 && gomoku.judged")
    click(page, "a1")
    page.wait_for_selector(".toast:has-text('a1: the pro opening begins in the centre, at c3')")
    for bad, said in (
        ("#board=6x6x4&opening=pro&moves=b1", "begins in the centre"),
        ("#board=3x3x3&opening=pro", "needs 4 or more in a row"),
        ("#board=6x6x4&opening=swap", "one of free, pro, long_pro"),
    ):
        page.evaluate("fragment => location.hash = fragment", bad)
        page.wait_for_selector(f".toast.error:has-text('{said}')")
        assert moves(page) == []


def test_an_agent_chooses_after_three_stones(open_page):
    page = open_page("#board=6x6x4", white="6x6x4")
    begin(page, "swap2")
    until(page, "gomoku.stage?.missing === 3 && gomoku.judged")
    assert page.inner_text("#status-text") == "First player: place 3 stones"
    play(page, "c3", "a1")
    assert page.inner_text("#status-text") == "First player: place 1 more stone"
    page.click("#undo")
    play(page, "a2", "d3")  # two of Black's in the middle, White at the edge: Black is what everybody takes
    until(page, "!gomoku.stage && gomoku.judged")
    page.wait_for_selector(".toast:has-text('Second player (6x6x4) takes Black: its value')")
    assert page.evaluate("gomoku.players") == {"1": "6x6x4", "-1": "person"}
    assert moves(page) == [14, 6, 15]
    play(page, "b3")  # White's
    until(page, "gomoku.moves.length === 5 && gomoku.judged")
    for _ in range(2):
        page.click("#undo")  # to the second stone, where nobody is asked again
    until(page, "gomoku.judged && gomoku.moves.join() === '14'")
    assert page.evaluate("gomoku.stage") is None
    assert page.inner_text("#status-text") == "White to move"


def test_a_person_chooses_after_an_agents_stones(open_page):
    page = open_page("#board=6x6x4")
    page.select_option("#black", "6x6x4")
    begin(page, "swap2")
    until(page, "gomoku.stage?.choices.length === 3 && gomoku.judged")
    placed = moves(page)
    assert len(set(placed)) == 3
    assert page.inner_text("#status-text") == "Second player: choose a colour"
    free = [action for action in range(36) if action not in placed]
    page.locator("#board").click(position=page.evaluate("action => gomoku.place(action)", free[0]))
    page.wait_for_selector(".toast:has-text('choose a colour, under the board')")
    page.reload()  # keeps how far the opening has come
    until(page, "gomoku.stage?.choices.length === 3 && gomoku.judged")
    assert moves(page) == placed
    page.click("#choose-add")
    for number, action in enumerate((free[0], free[-1]), 4):
        page.locator("#board").click(position=page.evaluate("action => gomoku.place(action)", action))
        until(page, f"gomoku.moves.length >= {number} && gomoku.judged")
    until(page, "!gomoku.stage && gomoku.judged")
    page.wait_for_selector(".toast:has-text('First player (6x6x4) takes')")
    players = page.evaluate("gomoku.players")
    taken = "Black" if players["1"] == "6x6x4" else "White"
    page.wait_for_selector(f".toast:has-text('takes {taken}')")
    assert sorted(players.values()) == ["6x6x4", "person"]
    assert moves(page)[:5] == [*placed, free[0], free[-1]]


def test_two_persons_swap(open_page):
    page = open_page("#board=3x3x3")
    begin(page, "swap2")
    until(page, "gomoku.stage?.missing === 3 && gomoku.judged")
    play(page, "a1", "b3", "b1")
    page.click("#choose-add")
    play(page, "c3")
    click(page, "c1")  # would be three in a row
    page.wait_for_selector(".toast:has-text('an opening must not end the game')")
    until(page, "gomoku.moves.length === 4 && gomoku.judged")
    play(page, "a2")
    assert page.is_hidden("#choose-add")
    page.click("#choose-white")
    until(page, "!gomoku.stage")
    page.wait_for_selector(
        ".toast:has-text('First player takes White. Second player has Black. White moves next.')"
    )
    play(page, "a3")
    until(page, "gomoku.over")
    assert page.inner_text("#status-text") == "White wins with 3 in a row"
