"""Every rule of the endpoint as rows of a table: a request, the rules, what is decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpremote.core.access import Circumstances, Grant, Refusal, RequestHead, Route, Rules, decide
from acpremote.core.authority import BoundTo, normalize_origin
from acpremote.core.credentials import is_token_text, token_subprotocol

TOKEN = "s3cret-token"
LOOPBACK = Rules(bound_to=BoundTo.of("127.0.0.1"), console=lambda path: path in ("/", "/console.js"))
SECURED = replace(LOOPBACK, token=TOKEN.encode())
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade"}
IDLE = Circumstances()


def head(
    target: str = "/acp/ws",
    *extra: tuple[str, str],
    method: str = "GET",
    host: str | None = "127.0.0.1:8080",
    upgrade: bool = True,
) -> RequestHead:
    headers = [] if host is None else [("Host", host)]
    headers += list(UPGRADE.items()) if upgrade else []
    return RequestHead.of(method, target, [*headers, *extra])


def status(request: RequestHead, rules: Rules = LOOPBACK, now: Circumstances = IDLE) -> int:
    """101 or 200 for a grant, the status of a refusal otherwise."""
    decision = decide(request, rules, now)
    if isinstance(decision, Refusal):
        return decision.status
    return 101 if decision.route is Route.LINK else 200


@pytest.mark.parametrize(
    ("target", "upgrade", "route"),
    [
        ("/acp", True, Route.LINK),
        ("/acp/", True, Route.LINK),
        ("/acp?x=1", True, Route.LINK),
        ("/acp/ws", True, Route.LINK),
        ("/acp/ws/", True, Route.LINK),
        ("/acp/ws?x=/y", True, Route.LINK),
        ("/acp", False, Route.METADATA),
        ("/acp/?pretty", False, Route.METADATA),
        ("/healthz", False, Route.HEALTH),
        ("/health", False, Route.HEALTH),
        ("/healthz?verbose", False, Route.HEALTH),
        ("/", False, Route.CONSOLE),
        ("/?theme=dark", False, Route.CONSOLE),
        ("/console.js", False, Route.CONSOLE),
    ],
)
def test_a_path_leads_to_its_route(target: str, upgrade: bool, route: Route) -> None:
    decision = decide(head(target, upgrade=upgrade), LOOPBACK, IDLE)
    assert isinstance(decision, Grant)
    assert decision.route is route


@pytest.mark.parametrize(
    "target",
    [
        "/other",
        "/acp/wss",
        "/acpx",
        "/ACP",
        "//acp",
        "/acp/../acp/x",
        "http://127.0.0.1/acp",
        "*",
        "",
        "/%61cp",
    ],
)
def test_any_other_path_is_404_whatever_else_is_wrong(target: str) -> None:
    assert status(head(target, method="POST", host=None), SECURED) == 404


def test_without_a_console_the_root_is_404() -> None:
    assert status(head("/", upgrade=False), replace(LOOPBACK, console=lambda path: False)) == 404


@pytest.mark.parametrize("target", ["/", "/ws"])
def test_a_server_mounted_at_the_root_serves_links_there(target: str) -> None:
    rules = replace(LOOPBACK, mount_path="/", console=lambda path: False)
    assert status(head(target), rules) == 101
    assert status(head("/", upgrade=False), rules) == 200
    assert status(head("/healthz", upgrade=False), rules) == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "get"])
@pytest.mark.parametrize("target", ["/acp", "/acp/ws", "/healthz", "/"])
def test_other_methods_are_405_and_told_which_are_served(method: str, target: str) -> None:
    decision = decide(head(target, method=method, host=None), SECURED, IDLE)
    assert isinstance(decision, Refusal)
    assert decision.status == 405
    assert ("Allow", "GET, HEAD") in decision.headers


@pytest.mark.parametrize(
    ("target", "expected"), [("/acp", 200), ("/acp/ws", 426), ("/healthz", 200), ("/", 200), ("/x", 404)]
)
def test_head_is_answered_as_a_get_without_upgrade(target: str, expected: int) -> None:
    assert status(head(target, method="HEAD")) == expected


def test_the_websocket_path_without_upgrade_is_426() -> None:
    decision = decide(head(upgrade=False), LOOPBACK, IDLE)
    assert isinstance(decision, Refusal)
    assert decision.status == 426
    assert ("Upgrade", "websocket") in decision.headers


@pytest.mark.parametrize("value", ["WebSocket", "h2c, websocket", "websocket "])
def test_the_upgrade_header_is_a_list_in_any_case(value: str) -> None:
    assert status(head("/acp", ("upgrade", value), upgrade=False)) == 101


def test_metadata_asked_for_as_an_event_stream_is_406() -> None:
    events = ("Accept", "application/json, text/event-stream;q=0.5")
    assert status(head("/acp", events, upgrade=False)) == 406
    assert status(head("/acp", events)) == 101, "an upgrade is no request for metadata"
    assert status(head("/acp", ("Accept", "*/*"), upgrade=False)) == 200


class TestHost:
    @pytest.mark.parametrize("target", ["/acp/ws", "/acp", "/", "/console.js"])
    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            ("127.0.0.1:8080", 0),
            ("127.0.0.1", 0),
            ("127.8.8.8:1", 0),
            ("localhost", 0),
            ("LOCALHOST:8080", 0),
            ("localhost.:8080", 0),
            ("agent.localhost", 0),
            ("[::1]:8080", 0),
            ("[::ffff:127.0.0.1]", 0),
            ("evil.example", 421),
            ("localhost.evil.example", 421),
            ("notlocalhost", 421),
            ("127.0.0.1.evil.example", 421),
            ("192.168.1.5", 421),
            ("[2001:db8::1]", 421),
            ("0.0.0.0", 421),
            ("user@localhost", 400),
            ("localhost:port", 400),
            ("localhost:99999", 400),
            ("local host", 400),
            ("[::1", 400),
            ("a,b", 400),
            ("", 400),
            (None, 400),
        ],
    )
    def test_on_a_loopback_bind_only_loopback_names_pass(
        self, target: str, host: str | None, expected: int
    ) -> None:
        upgrade = target == "/acp/ws"
        assert status(head(target, host=host, upgrade=upgrade)) == (expected or (101 if upgrade else 200))

    def test_a_repeated_host_is_400(self) -> None:
        assert status(head("/acp/ws", ("host", "127.0.0.1:8080"))) == 400

    @pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            ("192.168.1.5:8080", 101),
            ("[fe80::1]", 101),
            ("[fe80::1%eth0]:80", 101),
            ("localhost", 101),
            ("machine.lan", 421),
            ("evil.example", 421),
        ],
    )
    def test_on_a_wildcard_bind_any_address_passes_but_no_foreign_name(
        self, bound: str, host: str, expected: int
    ) -> None:
        assert status(head(host=host), replace(SECURED, token=None, bound_to=BoundTo.of(bound))) == expected

    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            ("machine.lan:8080", 101),
            ("10.0.0.7", 101),
            ("10.0.0.8", 421),
            ("localhost", 421),
            ("other.lan", 421),
        ],
    )
    def test_a_server_answers_to_the_name_and_address_it_is_bound_to(self, host: str, expected: int) -> None:
        rules = replace(LOOPBACK, bound_to=BoundTo.of("Machine.lan", "10.0.0.7"))
        assert status(head(host=host), rules) == expected

    def test_a_listed_host_passes(self) -> None:
        rules = replace(LOOPBACK, allowed_hosts=frozenset({"acp.example"}))
        assert status(head(host="ACP.example:443"), rules) == 101
        assert status(head(host="x.acp.example"), rules) == 421

    def test_a_unix_socket_counts_as_loopback(self) -> None:
        rules = replace(LOOPBACK, bound_to=BoundTo())
        assert status(head(host="localhost"), rules) == 101
        assert status(head(host="evil.example"), rules) == 421

    @pytest.mark.parametrize("host", [None, "evil.example", "user@x"])
    def test_health_is_exempt(self, host: str | None) -> None:
        assert status(head("/healthz", ("Origin", "null"), host=host, upgrade=False), SECURED) == 200


class TestOrigin:
    ROWS = (
        (None, 101),
        ("http://127.0.0.1:8080", 101),
        ("HTTP://127.0.0.1:8080", 101),
        ("https://127.0.0.1:8080", 101),
        ("http://127.0.0.1:8081", 403),
        ("http://127.0.0.1", 403),
        ("http://localhost:8080", 403),
        ("http://evil.example:8080", 403),
        ("http://127.0.0.1:8080.evil.example", 403),
        ("http://127.0.0.1:8080@evil.example", 403),
        ("http://evil.example/127.0.0.1:8080", 403),
        ("http://127.0.0.1:8080/", 403),
        ("http://127.0.0.1:8080 http://evil.example", 403),
        ("ws://127.0.0.1:8080", 403),
        ("chrome-extension://abcdef", 403),
        ("//127.0.0.1:8080", 403),
        ("null", 403),
        ("", 403),
    )

    @pytest.mark.parametrize("token", [None, TOKEN])
    @pytest.mark.parametrize(("origin", "expected"), ROWS)
    def test_a_page_must_come_from_the_server_itself(
        self, origin: str | None, expected: int, token: str | None
    ) -> None:
        extra = [] if origin is None else [("Origin", origin)]
        if token:
            extra.append(("Authorization", f"Bearer {token}"))
        assert status(head("/acp", *extra), SECURED if token else LOOPBACK) == expected

    @pytest.mark.parametrize("target", ["/acp", "/", "/console.js"])
    def test_the_rule_holds_for_pages_too(self, target: str) -> None:
        assert status(head(target, ("Origin", "http://evil.example"), upgrade=False)) == 403

    @pytest.mark.parametrize(
        ("host", "origin", "expected"),
        [
            ("LocalHost:8080", "http://localhost:8080", 101),
            ("localhost", "http://localhost", 101),
            ("localhost", "http://localhost:80", 101),
            ("localhost:443", "https://localhost", 101),
            ("localhost", "https://localhost", 101),
            ("localhost:80", "https://localhost", 403),
            ("[::1]:8080", "http://[::1]:8080", 101),
            ("[::1]:8080", "http://[0:0:0:0:0:0:0:1]:8080", 101),
        ],
    )
    def test_default_ports_are_filled_in(self, host: str, origin: str, expected: int) -> None:
        assert status(head("/acp", ("Origin", origin), host=host)) == expected

    def test_with_tls_a_page_from_plain_http_is_refused(self) -> None:
        rules = replace(LOOPBACK, tls=True)
        assert status(head("/acp", ("Origin", "https://localhost:8443"), host="localhost:8443"), rules) == 101
        assert status(head("/acp", ("Origin", "http://localhost:8443"), host="localhost:8443"), rules) == 403

    def test_a_listed_origin_passes_in_any_spelling_and_no_other(self) -> None:
        rules = replace(
            LOOPBACK, allowed_origins=frozenset({"https://app.example:443", "vscode-webview://1a2b"})
        )
        assert status(head("/acp", ("Origin", "https://APP.example")), rules) == 101
        assert status(head("/acp", ("Origin", "vscode-webview://1a2b")), rules) == 101
        assert status(head("/acp", ("Origin", "http://app.example")), rules) == 403
        assert status(head("/acp", ("Origin", "https://app.example:444")), rules) == 403

    def test_two_origins_are_400(self) -> None:
        own = ("Origin", "http://127.0.0.1:8080")
        assert status(head("/acp", own, own)) == 400


class TestToken:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([f"Bearer {TOKEN}"], 101),
            ([f"bearer {TOKEN}"], 101),
            ([f"BEARER   {TOKEN}"], 101),
            ([f" Bearer  {TOKEN} "], 101),
            ([], 401),
            ([""], 401),
            (["Bearer"], 401),
            (["Bearer "], 401),
            ([f"Bearer{TOKEN}"], 401),
            ([f"Bearer {TOKEN} x"], 401),
            ([f"Bearer {TOKEN},"], 401),
            ([f"Bearer {TOKEN[:-1]}"], 401),
            ([f"Bearer {TOKEN.upper()}"], 401),
            ([f"Basic {TOKEN}"], 401),
            ([TOKEN], 401),
            (["Bearer t\xf6ken"], 401),
            ([f"Bearer {TOKEN}", f"Bearer {TOKEN}"], 401),
            ([f"Bearer {TOKEN}", "Basic abc"], 401),
        ],
    )
    def test_the_authorization_header(self, values: list[str], expected: int) -> None:
        assert status(head("/acp", *(("Authorization", value) for value in values)), SECURED) == expected

    @pytest.mark.parametrize(
        ("offered", "expected"),
        [
            (f"acp.v1, {token_subprotocol(TOKEN)}", 101),
            (f"{token_subprotocol(TOKEN)},acp.v1", 101),
            (f"acp.v1, {token_subprotocol('wrong')}", 401),
            (f"acp.v1, {token_subprotocol(TOKEN)}, {token_subprotocol(TOKEN)}", 401),
            (f"acp.v1, {token_subprotocol(TOKEN)}, {token_subprotocol('wrong')}", 401),
            (f"acp.v1, {token_subprotocol(TOKEN)}==", 401),
            ("acp.v1, acp.bearer.", 401),
            ("acp.v1, acp.bearer.!!!", 401),
            ("acp.v1, acp.bearer.x", 401),
            (f"acp.v1, {TOKEN}", 401),
            (f"acp.v1, {token_subprotocol(TOKEN)}, a b", 401),
        ],
    )
    def test_the_subprotocol_of_browsers(self, offered: str, expected: int) -> None:
        assert status(head("/acp", ("Sec-WebSocket-Protocol", offered)), SECURED) == expected

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (f"token={TOKEN}", 101),
            (f"a=b&token={TOKEN.replace('-', '%2D')}", 101),
            ("token=", 401),
            ("token=wrong", 401),
            (f"token={TOKEN}&token={TOKEN}", 401),
            (f"Token={TOKEN}", 401),
            ("token=%ff", 401),
            ("a=b&" * 100 + f"token={TOKEN}", 401),
        ],
    )
    def test_the_query_only_where_it_is_switched_on(self, query: str, expected: int) -> None:
        request = head(f"/acp?{query}")
        assert status(request, replace(SECURED, query_token=True)) == expected
        assert status(request, SECURED) == 401

    @pytest.mark.parametrize("wrong", ["header", "subprotocol", "query"])
    def test_contradictory_credentials_are_refused(self, wrong: str) -> None:
        tokens = {
            place: ("wrong" if place == wrong else TOKEN) for place in ("header", "subprotocol", "query")
        }
        request = head(
            f"/acp?token={tokens['query']}",
            ("Authorization", f"Bearer {tokens['header']}"),
            ("Sec-WebSocket-Protocol", f"acp.v1, {token_subprotocol(tokens['subprotocol'])}"),
        )
        assert status(request, replace(SECURED, query_token=True)) == 401

    def test_agreeing_credentials_are_accepted(self) -> None:
        offered = ("Sec-WebSocket-Protocol", f"acp.v1, {token_subprotocol(TOKEN)}")
        assert status(head("/acp", ("Authorization", f"Bearer {TOKEN}"), offered), SECURED) == 101

    def test_a_refusal_says_how_to_authenticate_and_repeats_nothing(self) -> None:
        decision = decide(head("/acp", ("Authorization", "Bearer wr0ng")), SECURED, IDLE)
        assert isinstance(decision, Refusal)
        assert decision.headers == (("WWW-Authenticate", 'Bearer realm="acpremote"'),)
        assert "wr0ng" not in decision.reason

    def test_a_server_without_token_lets_in_who_sends_one(self) -> None:
        offered = ("Sec-WebSocket-Protocol", f"acp.v1, {token_subprotocol('x')}")
        assert status(head("/acp", ("Authorization", "Bearer x"), offered)) == 101

    @pytest.mark.parametrize(("sent", "shown"), [(TOKEN, True), ("wrong", False), (None, False)])
    def test_metadata_and_console_need_no_token_but_know_who_has_it(
        self, sent: str | None, shown: bool
    ) -> None:
        extra = [] if sent is None else [("Authorization", f"Bearer {sent}")]
        for target in ("/acp", "/"):
            decision = decide(head(target, *extra, upgrade=False), SECURED, IDLE)
            assert isinstance(decision, Grant)
            assert decision.authorized is shown


class TestStrangers:
    @pytest.mark.parametrize("target", ["/acp", "/acp/ws", "/"])
    def test_another_user_of_the_machine_is_refused(self, target: str) -> None:
        assert status(head(target, upgrade=target == "/acp/ws"), now=Circumstances(stranger=True)) == 403

    def test_health_is_for_everyone(self) -> None:
        assert status(head("/healthz", upgrade=False), now=Circumstances(stranger=True)) == 200


class TestCapacity:
    def test_a_full_server_answers_503_to_links_only(self) -> None:
        full = Circumstances(full=True)
        assert status(head("/acp"), now=full) == 503
        assert [status(head(path, upgrade=False), now=full) for path in ("/acp", "/", "/healthz")] == [
            200
        ] * 3

    def test_a_full_server_lets_a_link_come_back(self) -> None:
        link = ("Sec-WebSocket-Protocol", "acp.v1, acpremote.link.v1")
        returning = Circumstances(full=True, resumable=True)
        assert status(head("/acp", link), now=returning) == 101
        assert status(head("/acp"), now=returning) == 503, "a plain client has nothing to come back to"
        assert status(head("/acp", link), now=Circumstances(full=True)) == 503

    @pytest.mark.parametrize("target", ["/acp", "/acp/ws", "/", "/healthz"])
    def test_a_draining_server_answers_503(self, target: str) -> None:
        assert status(head(target, upgrade=target == "/acp/ws"), now=Circumstances(draining=True)) == 503

    def test_a_stranger_does_not_learn_that_it_is_full(self) -> None:
        assert status(head("/acp"), SECURED, Circumstances(full=True, draining=True)) == 401


class TestSubprotocol:
    @pytest.mark.parametrize(
        ("offered", "chosen"),
        [
            ([], None),
            (["acp.v1"], "acp.v1"),
            (["acp.v1, acpremote.link.v1"], "acpremote.link.v1"),
            (["acp.v1", "acpremote.link.v1"], "acpremote.link.v1"),
            (["chat, acp.v1"], "acp.v1"),
            (["chat, mqtt"], "chat"),
            ([f"{token_subprotocol(TOKEN)}, chat"], "chat"),
            ([f"ACP.Bearer.{token_subprotocol(TOKEN)[11:]}, chat"], "chat"),
            ([f"pre{TOKEN}post, chat"], "chat"),
            (["chat,, mqtt"], "chat"),
            ([""], None),
        ],
    )
    def test_one_harmless_offer_is_echoed(self, offered: list[str], chosen: str | None) -> None:
        headers = [("Sec-WebSocket-Protocol", value) for value in offered]
        decision = decide(head("/acp", ("Authorization", f"Bearer {TOKEN}"), *headers), SECURED, IDLE)
        assert decision == Grant(Route.LINK, "/acp", authorized=True, subprotocol=chosen)

    @pytest.mark.parametrize("offered", [token_subprotocol(TOKEN), TOKEN, "a b", "é"])
    def test_only_tokens_or_junk_offered_is_400(self, offered: str) -> None:
        request = head("/acp", ("Authorization", f"Bearer {TOKEN}"), ("Sec-WebSocket-Protocol", offered))
        assert status(request, SECURED) == 400

    def test_a_server_that_does_not_speak_the_link_does_not_choose_it(self) -> None:
        rules = replace(LOOPBACK, link=False)
        both = decide(head("/acp", ("Sec-WebSocket-Protocol", "acpremote.link.v1, acp.v1")), rules, IDLE)
        assert isinstance(both, Grant)
        assert both.subprotocol == "acp.v1"
        assert status(head("/acp", ("Sec-WebSocket-Protocol", "acpremote.link.v1")), rules) == 400

    def test_a_short_token_does_not_hide_the_known_names(self) -> None:
        offered = ("Sec-WebSocket-Protocol", "acp.v1")
        request = head("/acp", offered, ("Authorization", "Bearer acp"))
        assert status(request, replace(LOOPBACK, token=b"acp")) == 101


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("a+/=~", True), ("", False), ("a b", False), ("a\n", False), ("ä", False)],
)
def test_a_token_is_visible_ascii(text: str, good: bool) -> None:
    assert is_token_text(text) is good


def test_the_token_subprotocol_is_base64url_without_padding() -> None:
    assert token_subprotocol("~~~~") == "acp.bearer.fn5-fg"


def test_an_origin_with_a_broken_port_is_none() -> None:
    assert normalize_origin("http://localhost:99999") is None


def test_each_fault_hides_the_next() -> None:
    """The order of the module's head: mending one fault after another shows them one by one."""
    faults = {"method": "POST", "host": None}
    rules, now = SECURED, Circumstances(stranger=True, full=True)
    seen = [status(head("/x", **faults), rules, now)]  # type: ignore[arg-type]
    seen.append(status(head("/acp/ws", method="POST", host=None), rules, now))
    bad_origin = ("Origin", "null")
    seen.append(status(head("/acp/ws", bad_origin, host=None, upgrade=False), rules, now))
    seen.append(status(head("/acp/ws", bad_origin, host="evil.example", upgrade=False), rules, now))
    seen.append(status(head("/acp/ws", bad_origin, upgrade=False), rules, now))
    seen.append(status(head("/acp/ws", upgrade=False), rules, now))
    seen.append(status(head("/acp/ws", upgrade=False), rules, Circumstances(full=True)))
    seen.append(status(head("/acp/ws"), rules, Circumstances(full=True)))
    token = ("Authorization", f"Bearer {TOKEN}")
    seen.append(status(head("/acp/ws", token), rules, Circumstances(full=True)))
    seen.append(status(head("/acp/ws", token), rules))
    assert seen == [404, 405, 400, 421, 403, 403, 426, 401, 503, 101]


def test_no_secret_shows_in_a_repr() -> None:
    assert TOKEN not in repr(SECURED)
    assert TOKEN not in repr(head(f"/acp?token={TOKEN}", ("Authorization", f"Bearer {TOKEN}")))


HEADER = st.text(st.characters(max_codepoint=255), max_size=40)
NAMES = st.sampled_from(
    ["Host", "Origin", "Authorization", "Upgrade", "Sec-WebSocket-Protocol", "Accept", "Connection"]
)


@given(
    method=st.sampled_from(["GET", "HEAD", "POST"]) | HEADER,
    target=st.sampled_from(["/acp", "/acp/ws", "/", "/healthz"]) | HEADER,
    query=HEADER,
    headers=st.lists(st.tuples(NAMES, HEADER), max_size=6),
)
def test_nothing_that_a_stranger_sends_gets_in_or_raises(
    method: str, target: str, query: str, headers: list[tuple[str, str]]
) -> None:
    request = RequestHead.of(method, f"{target}?{query}", headers)
    decision = decide(request, replace(SECURED, query_token=True), IDLE)
    assert isinstance(decision, Refusal) or decision.route is not Route.LINK
