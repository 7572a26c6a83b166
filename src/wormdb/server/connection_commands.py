"""What clients send before anything else: HELLO, AUTH, CLIENT, COMMAND, CONFIG GET, INFO, PING, and the like."""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, Final

from wormdb.server.commands import Command, refuse_bare
from wormdb.server.replies import OK, ErrorReply, Status
from wormdb.system.installed import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.server.session import ClientSession

__all__ = ["CONNECTION_COMMANDS", "REDIS_VERSION"]

REDIS_VERSION: Final = "7.2.0"
"""The version of Redis's protocol that clients may expect."""
_CONFIG: Final = {"appendonly": "no", "databases": "1", "maxmemory": "0", "save": "", "timeout": "0"}


def _text(word: bytes) -> str:
    return word.decode("utf-8", "replace")


def hello(session: ClientSession, words: list[bytes]) -> Any:
    """HELLO [version [AUTH user password] [SETNAME name]]."""
    version = session.version
    if len(words) > 1:
        if words[1] not in (b"2", b"3"):
            is_number = words[1].isdigit()
            raise (
                ErrorReply("unsupported protocol version", "NOPROTO")
                if is_number
                else ErrorReply("Protocol version is not an integer or out of range")
            )
        version = int(words[1])
    name, credentials = None, None
    at = 2
    while at < len(words):
        match words[at].upper(), words[at + 1 : at + 3]:
            case b"AUTH", [user, password]:
                credentials = (user, password)
                at += 3
            case b"SETNAME", [given, *_]:
                name = _client_name(given)
                at += 2
            case _:
                raise ErrorReply(f"Syntax error in HELLO option '{_text(words[at][:64])}'")
    if credentials is not None:
        _log_in(session, *credentials)
    elif not session.is_known:
        raise ErrorReply(
            "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass>"
            " option can be used to authenticate the client and select the RESP protocol version at the same time",
            "NOAUTH",
        )
    if name is not None:
        session.name = name
    session.version = version
    return {
        "server": "wormdb",
        "version": __version__,
        "proto": version,
        "id": session.id,
        "mode": "standalone",
        "role": "master",
        "modules": [],
    }


def _log_in(session: ClientSession, user: bytes, password: bytes) -> None:
    accounts = session.service.accounts
    if accounts is None:
        raise ErrorReply("AUTH called without any password configured: this server has no users")
    account = accounts.check(_text(user), _text(password))
    if account is None:
        raise ErrorReply("invalid username-password pair or user is disabled.", "WRONGPASS")
    session.admit(account)


def auth(session: ClientSession, words: list[bytes]) -> Any:
    """AUTH [user] password."""
    user, password = (b"default", words[1]) if len(words) == 2 else (words[1], words[2])
    _log_in(session, user, password)
    return OK


def ping(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the session
    """PING [text]."""
    return Status("PONG") if len(words) == 1 else words[1]


def echo(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the session
    """ECHO text."""
    return words[1]


def select(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the session
    """SELECT 0."""
    if not words[1].isdigit():
        raise ErrorReply("invalid DB index")
    if int(words[1][:18]):
        raise ErrorReply("DB index is out of range")
    return OK


def leave(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """QUIT."""
    session.is_ending = True
    return OK


def reset(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """RESET."""
    session.reset()
    session.version, session.name = 2, ""
    return Status("RESET")


# --- CLIENT ---


def _client_name(word: bytes) -> str:
    if any(not 0x21 <= letter <= 0x7E for letter in word):
        raise ErrorReply("Client names cannot contain spaces, newlines or special characters.")
    return word.decode()[:1_000]


def client_id(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """CLIENT ID."""
    return session.id


def client_getname(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """CLIENT GETNAME."""
    return session.name or None


def client_setname(session: ClientSession, words: list[bytes]) -> Any:
    """CLIENT SETNAME name."""
    session.name = _client_name(words[2])
    return OK


def client_setinfo(session: ClientSession, words: list[bytes]) -> Any:
    """CLIENT SETINFO LIB-NAME|LIB-VER text."""
    option = words[2].upper()
    if option not in (b"LIB-NAME", b"LIB-VER"):
        raise ErrorReply(f"Unrecognized option '{_text(words[2][:64])}'")
    session.library[option.decode().lower()] = _client_name(words[3])
    return OK


def _client_line(session: ClientSession) -> str:
    now = session.service.clock.monotonic()
    return (
        f"id={session.id} addr={session.address} name={session.name} age={int(now - session.began)} "
        f"idle={int(now - session.used)} db=0 cursors={len(session.cursors)} ns={session.namespace} "
        f"cmd={session.command.lower()} user={session.account.name} resp={session.version} "
        f"lib-name={session.library.get('lib-name', '')} lib-ver={session.library.get('lib-ver', '')}"
    )


def client_info(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """CLIENT INFO."""
    return _client_line(session) + "\n"


def client_list(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """CLIENT LIST."""
    others = session.peers if session.account.is_admin else {session.id: session}
    return "".join(f"{_client_line(others[number])}\n" for number in sorted(others))


def accept(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes both
    """Subcommands that change nothing here."""
    return OK


# --- COMMAND, CONFIG, INFO ---


def _named(session: ClientSession, words: list[bytes]) -> Mapping[str, Command | None]:
    table = session.service.commands
    if len(words) == 2:
        return {each.name: each for each in table.values()}
    return {_text(word).upper(): table.get(word.upper()) for word in words[2:]}


def _row(command: Command, above: str = "") -> list[Any]:
    name = f"{above}|{command.name}" if above else command.name
    place = command.bucket_at or 0
    subcommands = [_row(each, command.name.lower()) for each in command.subcommands]
    kind = f"@{command.group}"
    flags = [Status(flag) for flag in command.flags]
    return [name.lower(), command.arity, flags, place, place, int(place > 0), [Status(kind)], [], [], subcommands]


def command_all(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """COMMAND."""
    return [_row(each) for each in session.service.commands.values()]


def command_info(session: ClientSession, words: list[bytes]) -> Any:
    """COMMAND INFO [name …]."""
    return [None if each is None else _row(each) for each in _named(session, words).values()]


def command_count(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """COMMAND COUNT."""
    return len(session.service.commands)


def command_list(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """COMMAND LIST."""
    return [each.name.lower() for each in session.service.commands.values()]


def _about(command: Command) -> dict[str, Any]:
    about: dict[str, Any] = {"summary": command.summary, "since": "1.0.0", "group": command.group}
    if command.syntax:
        # One argument whose name is the whole syntax: clients show it as a hint.
        about["arguments"] = [{"name": command.syntax, "type": "string", "display_text": command.syntax}]
    if command.subcommands:
        about["subcommands"] = {f"{command.name}|{each.name}".lower(): _about(each) for each in command.subcommands}
    return about


def command_docs(session: ClientSession, words: list[bytes]) -> Any:
    """COMMAND DOCS [name …]."""
    return {name.lower(): _about(each) for name, each in _named(session, words).items() if each is not None}


def config_get(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the session
    """CONFIG GET pattern …."""
    patterns = [_text(word).lower() for word in words[2:]]
    return {
        name: value
        for name, value in _CONFIG.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }


def info(session: ClientSession, words: list[bytes]) -> Any:
    """INFO [section …]."""
    service = session.service
    figures = service.figures
    sections: dict[str, dict[str, object]] = {
        "server": {
            "redis_version": REDIS_VERSION,
            "redis_mode": "standalone",
            "wormdb_version": __version__,
            "uptime_in_seconds": int(service.clock.monotonic() - service.began),
        },
        "clients": {"connected_clients": len(session.peers)},
        "persistence": {"loading": 0},
        "stats": {
            "total_connections_received": figures.connections,
            "rejected_connections": figures.refused,
            "total_commands_processed": figures.commands,
            "total_net_input_bytes": figures.bytes_in,
            "total_net_output_bytes": figures.bytes_out,
        },
        "replication": {"role": "master", "connected_slaves": 0},
        "keyspace": {},
    }
    wanted = {_text(word).lower() for word in words[1:]} - {"all", "default", "everything"}
    shown = [name for name in sections if not wanted or name in wanted]
    return "\r\n".join(
        f"# {name.title()}\r\n" + "".join(f"{field}:{value}\r\n" for field, value in sections[name].items())
        for name in shown
    )


def _sub(name: str, syntax: str, summary: str, run: Any, least: int = 0, most: int | None = 0) -> Command:
    return Command(name, syntax, summary, run, least=least, most=most)


_CLIENT: Final = (
    _sub("ID", "", "The number of this connection.", client_id),
    _sub("GETNAME", "", "The name of this connection.", client_getname),
    _sub("SETNAME", "name", "Name this connection.", client_setname, 1, 1),
    _sub("SETINFO", "LIB-NAME|LIB-VER text", "Name the client's library.", client_setinfo, 2, 2),
    _sub("INFO", "", "This connection.", client_info),
    _sub("LIST", "", "All connections; of a user that is no admin, its own.", client_list, 0, None),
    _sub("NO-EVICT", "ON|OFF", "Accepted: connections are not evicted.", accept, 1, 1),
    _sub("NO-TOUCH", "ON|OFF", "Accepted: nothing is touched by reading.", accept, 1, 1),
)
_COMMAND: Final = (
    _sub("COUNT", "", "How many commands there are.", command_count),
    _sub("DOCS", "[name …]", "What commands do.", command_docs, 0, None),
    _sub("INFO", "[name …]", "How commands are called.", command_info, 0, None),
    _sub("LIST", "", "The names of commands.", command_list),
)

CONNECTION_COMMANDS: Final = (
    Command(
        "HELLO",
        "[2|3 [AUTH user password] [SETNAME name]]",
        "Choose the protocol, and say who you are.",
        hello,
        place="try",
        is_open=True,
    ),
    Command("AUTH", "[user] password", "Say who you are.", auth, least=1, most=2, place="try", is_open=True),
    Command("PING", "[text]", "PONG, or the text.", ping, most=1),
    Command("ECHO", "text", "The text.", echo, least=1, most=1),
    Command("SELECT", "0", "Accepted for 0: namespaces are chosen by NAMESPACE USE.", select, least=1, most=1),
    Command("QUIT", "", "Close the connection.", leave, is_open=True),
    Command("RESET", "", "Be as a new connection.", reset, most=0, is_open=True),
    Command("CLIENT", "subcommand …", "About connections.", refuse_bare, least=1, subcommands=_CLIENT),
    Command("COMMAND", "[subcommand …]", "About commands.", command_all, subcommands=_COMMAND),
    Command(
        "CONFIG",
        "GET pattern …",
        "Settings that clients ask for.",
        refuse_bare,
        least=1,
        subcommands=(_sub("GET", "pattern …", "Settings by pattern.", config_get, 1, None),),
    ),
    Command("INFO", "[section …]", "Figures of the server.", info),
)
