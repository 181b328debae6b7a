"""Who a peer is and what it may: with Kafka's and Java's own classes, and RFCs, as the judges."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import random
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.conformance.cluster import class_path
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.node.security import scram
from kraftspec.reference.node.security.authorizer import NEEDS, Authorizer, Operation, cluster_acl
from kraftspec.reference.node.security.jaas import (
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasError,
    parse_login,
)
from kraftspec.reference.node.security.principal import (
    MappingError,
    parse_rules,
    principal_of,
    subject_of,
)
from kraftspec.reference.node.security.sasl import (
    Answer,
    AuthenticationError,
    Authenticator,
    authenticate_client,
)
from kraftspec.reference.node.security.scram import ScramCredential, ScramError
from kraftspec.reference.node.settings import Login, Mechanism, SaslConfig, SecurityConfig

from .certificates import Authority

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
SCRAMS = (SHA_256, SHA_512)


def oracle(questions: list[dict[str, Any]]) -> list[Any]:
    """Return Java's answers."""
    source = Path(__file__).with_name("SecurityOracle.java")
    jars = os.pathsep.join(map(str, class_path()))
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
         "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", jars, str(source)],
        input="".join(json.dumps(one) + "\n" for one in questions),
        capture_output=True, text=True, encoding="utf-8", timeout=120, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


# ---- questions for Java ------------------------------------------------------------------------

OIDS = [
    NameOID.COMMON_NAME, NameOID.COUNTRY_NAME, NameOID.LOCALITY_NAME, NameOID.ORGANIZATION_NAME,
    NameOID.STATE_OR_PROVINCE_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.STREET_ADDRESS,
    NameOID.DOMAIN_COMPONENT, NameOID.USER_ID, NameOID.EMAIL_ADDRESS, NameOID.SURNAME,
    NameOID.SERIAL_NUMBER, NameOID.TITLE,
]  # fmt: skip
VALUES = [
    "node-1", "a,b", "a=b", " lead", "trail ", "  ", 'q"uote', "back\\slash", "<x>;y", "#hash",
    "a#b", "ünïcode", "日本", "a+b", "x" * 64, "tab\there", "dot.com", "_*@!",
]  # fmt: skip


def names() -> list[x509.Name]:
    """Return names of one to four parts, some of several attributes, of all kinds of strings."""
    draw = random.Random(4)
    drawn = []
    for _ in range(300):
        parts = []
        for _ in range(draw.randint(1, 4)):
            attributes = {}
            for oid in draw.sample(OIDS, draw.choice((1, 1, 1, 2))):
                value = "DE" if oid == NameOID.COUNTRY_NAME else draw.choice(VALUES)
                kind = None
                if value.isascii() and oid != NameOID.COUNTRY_NAME and draw.random() < 0.3:
                    kind = draw.choice((_ASN1Type.IA5String, _ASN1Type.BMPString))
                attributes[oid] = x509.NameAttribute(oid, value, kind)
            parts.append(x509.RelativeDistinguishedName(attributes.values()))
        drawn.append(x509.Name(parts))
    return drawn


RULES = [
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L",
    "RULE:^CN=(.*?),.*$/$1/U, DEFAULT",
    "RULE:^cn=(.*)$/$1/,RULE:^.*O=(.*?)(,.*)?$/team-$1/L",
    "RULE:CN=(\\w+).*/$1$2/",
    "RULE:^CN=(.*)\\/(.*),.*$/$1.$2/",
    "RULE:.*/fixed/",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT",
]
BAD_RULES = ["rule", "RULE:x", "RULE:a/b", "DEFAULTX", "RULE:(/x/", "RULE:a/b/Z"]
SUBJECTS = [
    "CN=Node-1,OU=Ops,O=Acme",
    "CN=Node-1",
    "O=Acme",
    "CN=a/b,O=Acme",
    "cn=lower,o=x",
    "CN=$1,O=\\2",
]

LOGINS = [
    f'{PLAIN_MODULE} required username="a" password="b" user_a="b";',
    f"{PLAIN_MODULE} REQUIRED username='a' password='it\"s';",
    f"{SCRAM_MODULE} required\n  username=alice\n  password=secret ;",
    f'{PLAIN_MODULE} required password="q\\"uo\\\\te\\n\\t\\101";',
    f'{PLAIN_MODULE} required // a comment\n username="x" /* and\n another */ password="y";',
    f'{PLAIN_MODULE} optional a="1" b="2";',
    f'{PLAIN_MODULE} required user_with-dash="p" user_x.y="z";',
    f"{PLAIN_MODULE} required;",
    f'{PLAIN_MODULE} required password="with = and ; inside";',
    f'{PLAIN_MODULE} required password="";',
    f'{PLAIN_MODULE} required "quoted"="x";',
    f'{PLAIN_MODULE} required password="ü";',
    f'{PLAIN_MODULE} sufficient a="x" a="y";',
]
BAD_LOGINS = [
    "",
    ";",
    f"{PLAIN_MODULE}",
    f"{PLAIN_MODULE} required",
    f'{PLAIN_MODULE} required username="a"',
    f"{PLAIN_MODULE} required username=;",
    f"{PLAIN_MODULE} required username;",
    f'{PLAIN_MODULE} maybe username="a";',
    f'{PLAIN_MODULE} required username "a";',
    f'{PLAIN_MODULE} required a="x"; {PLAIN_MODULE} required b="y";',
    f"{PLAIN_MODULE} required password=123;",
    f'{PLAIN_MODULE} required ="x";',
]
ALICE, BOB, NODE = "User:alice", "User:bob", "User:CN=node,O=Tests"


def acl_cases() -> list[dict[str, Any]]:
    draw = random.Random(9)
    cases = []
    for _ in range(400):
        acls = [
            {
                "type": draw.choice((4, 4, 4, 2)),
                "name": draw.choice(("kafka-cluster", "kafka-cluster", "*", "kafka-", "other")),
                "pattern": draw.choice((3, 3, 4)),
                "principal": draw.choice((ALICE, BOB, "User:*")),
                "host": draw.choice(("*", "*", "127.0.0.1", "10.0.0.1")),
                "operation": draw.choice([*Operation, 5, 10, 11, 12]),
                "permission": draw.choice((3, 3, 3, 2)),
            }
            for _ in range(draw.choice((0, 1, 1, 2, 3, 5)))
        ]
        different = {json.dumps(acl): acl for acl in acls}
        acls = list(different.values())
        cases.append(
            {
                "kind": "acl",
                "super": draw.choice(("", "User:root", f"User:root;{NODE}")),
                "open": draw.choice(("true", "false", "false")),
                "acls": acls,
                "principal": draw.choice((ALICE, BOB, "User:root", NODE, "User:ANONYMOUS")),
                "host": "127.0.0.1",
                "operation": draw.choice(
                    (Operation.CLUSTER_ACTION, Operation.ALTER, Operation.DESCRIBE)
                ),
            }
        )
    return cases


RANGES = [
    "10.0.0.0/8", "10.1.2.3/16", "10.1.2.3/32", "0.0.0.0/0", "10.1.2.0/31", "010.001.0.0/16",
    "10.1.0.0/016", "10.1.0.0/33", "10.1.0.0/", "/8", "10.1/16", "10.1.0.0/255.255.0.0",
    "10.1.0.256/8", " 10.0.0.0/8", "10.0.0.0/+8", "10.0.0.0/8/8", "2001:db8::/32", "::/0",
    "::1/128", "2001:db8::1:2/127", "2001:db8::/129", "2001:db8::/x", "2001:db8::/-1",
    "::ffff:10.0.0.0/104", "2001:db8::/064", "fe80::/10", "x:/8", "10.1.2.3", "*",
]  # fmt: skip
HOSTS = [
    "10.1.2.3", "10.1.2.1", "10.255.255.255", "11.0.0.0", "127.0.0.1", "255.255.255.255",
    "2001:db8:0:0:0:0:1:2", "2001:db8:0:0:0:0:1:4", "2001:db9:0:0:0:0:0:0", "0:0:0:0:0:0:0:1",
    "fe80:0:0:0:0:0:0:1",
]  # fmt: skip


def range_cases() -> list[dict[str, Any]]:
    """Each range, each host: the one ACL that there is allows it or not."""
    acl = {
        "type": 4, "name": "kafka-cluster", "pattern": 3, "principal": ALICE, "operation": 2,
        "permission": 3,
    }  # fmt: skip
    about = {
        "kind": "range", "super": "", "open": "false", "principal": ALICE,
        "operation": Operation.ALTER,
    }  # fmt: skip
    return [
        {**about, "host": host, "acls": [{**acl, "host": text}]}
        for text in RANGES
        for host in HOSTS
    ]


@pytest.fixture(scope="module")
def answers() -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """What Java says to all of those questions, by their kinds."""
    questions: list[dict[str, Any]] = [
        {"kind": "name", "der": base64.b64encode(name.public_bytes()).decode()} for name in names()
    ]
    questions += [
        {"kind": "rules", "rules": rules, "subject": subject}
        for rules in RULES + BAD_RULES
        for subject in SUBJECTS
    ]
    questions += [{"kind": "jaas", "text": text} for text in LOGINS + BAD_LOGINS]
    questions += acl_cases()
    questions += range_cases()
    by_kind: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    for one, answer in zip(questions, oracle(questions), strict=True):
        by_kind.setdefault(one["kind"], []).append((one, answer))
    return by_kind


def is_refused(answer: Any) -> bool:
    return isinstance(answer, dict) and "refused" in answer


@pytest.mark.kafka
def test_names_are_written_as_java_writes_them(answers: dict[str, Any]) -> None:
    ours = [subject_of(name.public_bytes()) for name in names()]
    assert ours == [answer for _, answer in answers["name"]]


@pytest.mark.kafka
def test_rules_map_as_kafka_maps(answers: dict[str, Any]) -> None:
    for question, answer in answers["rules"]:
        try:
            rules = parse_rules(question["rules"])
        except MappingError:
            assert is_refused(answer), question
            continue
        applied = [rule.apply(question["subject"]) for rule in rules]
        ours = next((name for name in applied if name is not None), None)
        assert ours == (None if is_refused(answer) else answer), question


@pytest.mark.kafka
def test_logins_are_read_as_kafka_reads_them(answers: dict[str, Any]) -> None:
    for question, answer in answers["jaas"]:
        try:
            login = parse_login(question["text"])
        except JaasError:
            assert is_refused(answer), question
            continue
        assert answer == {"module": login.module, "options": login.options}, question
    assert sum(is_refused(answer) for _, answer in answers["jaas"]) == len(BAD_LOGINS)


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["acl", "range"])
def test_the_authorizer_is_kafkas(kind: str, answers: dict[str, Any]) -> None:
    keys = {operation: key for key, operation in NEEDS.items()}
    verdicts = []
    for question, answer in answers[kind]:
        entries = [
            cluster_acl(
                kafka.AccessControlEntryRecord(
                    resource_type=acl["type"], resource_name=acl["name"],
                    pattern_type=acl["pattern"], principal=acl["principal"], host=acl["host"],
                    operation=acl["operation"], permission_type=acl["permission"],
                )
            )
            for acl in question["acls"]
        ]  # fmt: skip
        acls = [acl for acl in entries if acl is not None]
        config = SecurityConfig(
            has_authorizer=True,
            super_users=frozenset(filter(None, question["super"].split(";"))),
            allow_if_no_acl=question["open"] == "true",
        )
        authorizer = Authorizer(config, partial(list, acls))
        ours = authorizer.allowed(
            question["principal"], keys[question["operation"]], question["host"]
        )
        assert ours == answer, question
        verdicts.append(ours)
    assert len(verdicts) / 10 < sum(verdicts) < len(verdicts) * 3 / 4


# ---- who may call ------------------------------------------------------------------------------


def test_closed_once_security_is_on() -> None:
    everything = [*NEEDS, kafka.CreateTopicsRequest.API_KEY]
    off = Authorizer(SecurityConfig(), list)
    assert all(off.allowed("User:ANONYMOUS", key) for key in everything)
    config = SecurityConfig(has_secure_listener=True, super_users=frozenset({ALICE}))
    on = Authorizer(config, list)
    assert not any(on.allowed(BOB, key) for key in everything)
    assert all(on.allowed(ALICE, key) for key in NEEDS)
    for open_key in (18, 17, 36):  # ApiVersions, SaslHandshake, SaslAuthenticate
        assert on.allowed(BOB, open_key)


def test_a_certificate_names_its_peer() -> None:
    identity = Authority().sign("node-1")
    der = identity.certificate.public_bytes(encoding=_der())
    assert principal_of(der, parse_rules("DEFAULT")) == "User:CN=node-1,O=Tests"
    assert principal_of(der, parse_rules("RULE:^CN=(.*?),.*$/$1/U")) == "User:NODE-1"
    assert principal_of(None, parse_rules("DEFAULT")) == "User:ANONYMOUS"
    with pytest.raises(MappingError, match="no rule"):
        principal_of(der, parse_rules("RULE:^x$/y/"))


def _der() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 — this once

    return Encoding.DER


@given(st.text(max_size=40))
def test_a_login_that_is_none_never_hurts(text: str) -> None:
    head = f"{PLAIN_MODULE} required"
    for candidate in (text, f"{head} {text};", f'{head} a="{text}'):
        with suppress(JaasError):
            parse_login(candidate)


# ---- SCRAM -------------------------------------------------------------------------------------


def test_the_arithmetic_of_rfc_7677() -> None:
    """The example exchange of RFC 7677, section 3."""
    bare = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    unproven = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    nonce, salt, iterations = scram.read_server_first(first.encode(), "rOprNGfwEbeRWgbNEkqO")
    assert nonce == unproven.partition(",r=")[2]
    salted = scram.salted_password(SHA_256, "pencil", salt, iterations)
    auth_message = f"{bare},{first},{unproven}".encode()
    proof, signature = scram.proof_of(SHA_256, salted, auth_message)
    assert scram.encode(proof) == "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert scram.encode(signature) == "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    credential = scram.credential_of(SHA_256, "pencil", salt, iterations)
    assert scram.is_proven(SHA_256, credential, auth_message, proof)
    assert not scram.is_proven(SHA_256, credential, auth_message + b"x", proof)
    assert not scram.is_proven(SHA_256, credential, auth_message, proof[:-1])


CREDENTIALS = {
    (mechanism, name): scram.credential_of(mechanism, password, b"salt" * 4, 4096)
    for mechanism in SCRAMS
    for name, password in {"alice": "secret", "c,o=mma": "pass,word=", "ünï": "pässwörd"}.items()
}
USERS = Login(
    module=PLAIN_MODULE, options={"user_alice": "secret", "user_bob": "other", "user_empty": ""}
)
ALL = SaslConfig(mechanisms=tuple(Mechanism), logins={Mechanism.PLAIN: USERS})


def lookup(mechanism: Mechanism, name: str) -> ScramCredential | None:
    return CREDENTIALS.get((mechanism, name))


def server(config: SaslConfig = ALL, now_s: Callable[[], float] = lambda: 0.0) -> Authenticator:
    return Authenticator(config, lookup, now_s)


def own(mechanism: Mechanism, name: str, password: str) -> SaslConfig:
    options = {"username": name, "password": password}
    return SaslConfig(
        mechanisms=(mechanism,), logins={mechanism: Login(module="m", options=options)}
    )


def log_in(peer: Authenticator, config: SaslConfig, **spoil: Callable[[Any], Any]) -> int:
    """Let our client talk to our server; ``spoil`` changes what is said on the way."""

    async def exchange(request: Any, version: int, answers: Any) -> Any:
        name = type(request).__name__
        request = spoil.get(name, lambda it: it)(request)
        decoded = type(request).decode(request.encode(version), version, copy=True)
        answer = peer.handle(decoded)
        if answer is None:
            raise ConnectionResetError("closed")
        response = spoil.get(type(answer.response).__name__, lambda it: it)(answer.response)
        return answers.decode(response.encode(version), version, copy=True)

    return asyncio.run(authenticate_client(config, exchange))


@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_who_knows_the_password_is_let_in(mechanism: Mechanism) -> None:
    peer = server()
    assert not peer.allows()
    assert log_in(peer, own(mechanism, "alice", "secret")) == 0
    assert peer.principal == "User:alice"
    assert peer.allows()


@pytest.mark.parametrize("mechanism", SCRAMS)
@pytest.mark.parametrize(("name", "password"), [("c,o=mma", "pass,word="), ("ünï", "pässwörd")])
def test_odd_names(mechanism: Mechanism, name: str, password: str) -> None:
    peer = server()
    log_in(peer, own(mechanism, name, password))
    assert peer.principal == f"User:{name}"


@pytest.mark.parametrize("mechanism", list(Mechanism))
@pytest.mark.parametrize(
    ("name", "password"), [("alice", "Secret"), ("alice", "secret "), ("nobody", "secret")]
)
def test_who_does_not_is_not(mechanism: Mechanism, name: str, password: str) -> None:
    peer = server()
    with pytest.raises(AuthenticationError) as caught:
        log_in(peer, own(mechanism, name, password))
    assert password.strip() not in str(caught.value)
    assert peer.principal is None
    assert not peer.allows()
    assert peer.handle(kafka.SaslHandshakeRequest(mechanism="PLAIN")) is None


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_an_unknown_name_looks_like_a_known_one(mechanism: Mechanism) -> None:
    """Both get a challenge, an unknown one the same each time: nobody learns which names exist."""

    def challenge(name: str) -> tuple[int, str]:
        peer = server()
        peer.handle(kafka.SaslHandshakeRequest(mechanism=mechanism))
        first = f"n,,n={name},r=0123456789abcdef".encode()
        answer = peer.handle(kafka.SaslAuthenticateRequest(auth_bytes=first))
        assert answer is not None
        response = answer.response
        assert isinstance(response, kafka.SaslAuthenticateResponse)
        server_first = bytes(response.auth_bytes).decode()
        return response.error_code, re.sub("^r=[^,]*", "", server_first)

    assert challenge("alice")[0] == challenge("nobody")[0] == 0
    assert challenge("nobody") == challenge("nobody")
    assert challenge("nobody") != challenge("nobody2")
    assert challenge("alice")[1].endswith(",i=4096")
    assert challenge("nobody")[1].endswith(",i=4096")


def changed(field: str, change: Callable[[bytes], bytes]) -> Callable[[Any], Any]:
    def change_it(message: Any) -> Any:
        setattr(message, field, change(bytes(getattr(message, field))))
        return message

    return change_it


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (rb",i=4096", b",i=1"),  # Fewer rounds: what was heard is sooner guessed.
        (rb",i=4096", b",i=4095"),
        (rb",i=4096", b",i=999999999"),  # More: our time is spent.
        (rb"^r=.{8}", b"r=00000000"),  # Another exchange's nonce.
        (rb"^r=([^,]{32})[^,]*", rb"r=\1"),  # Nothing of the server's own.
        (rb"s=[^,]*", b"s="),
        (rb"s=[^,]*", b"s=!!!!"),
        (rb"^r=", b"m=x,r="),
        (rb"v=.*", b"v=" + base64.b64encode(bytes(32))),  # A server that knows no password.
        (rb"v=.*", b"v="),
        (rb"v=.*", b"e=other-error"),
        (rb"v=.*", b""),
        (rb"v=.*", b"\xff"),
    ],
)
def test_a_server_that_is_another_is_not_believed(pattern: bytes, replacement: bytes) -> None:
    change = changed("auth_bytes", lambda data: re.sub(pattern, replacement, data))
    with pytest.raises(AuthenticationError):
        log_in(server(), own(SHA_256, "alice", "secret"), SaslAuthenticateResponse=change)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (rb"^n,,", b"p=tls-unique,,"),  # Channel binding, which nobody here has.
        (rb"^n,,", b"n,a=bob,"),  # Somebody else's rights.
        (rb"^n,,", b"y,,"),  # Not what the end says that it was.
        (rb"^c=biws", b"c=eSws"),
        (rb"^c=biws,", b""),
        (rb",r=([^,]*),p=", rb",r=\g<1>0,p="),
        (rb",r=([^,]*)$", rb",r=\g<1>,m=x"),
        (rb",r=([^,]*)$", b",r=short"),
        (rb",r=([^,]*)$", rb",r=\g<1>,tokenauth=true"),
        (rb",p=.*", b",p=" + base64.b64encode(bytes(32))),  # A client that knows no password.
        (rb",p=", b",p=AAAA"),
        (rb",p=.*", b",p="),
        (rb",p=.*", b""),
        (rb"n=alice", b"n="),
        (rb"n=alice", b"n=a=lice"),
        (rb".*", b"\xff\xfe"),
        (rb".*", b""),
    ],
)
def test_a_client_that_is_another_is_not_let_in(pattern: bytes, replacement: bytes) -> None:
    peer = server()
    change = changed("auth_bytes", lambda data: re.sub(pattern, replacement, data, count=1))
    with pytest.raises(AuthenticationError):
        log_in(peer, own(SHA_256, "alice", "secret"), SaslAuthenticateRequest=change)
    assert peer.principal is None


def test_what_was_heard_is_of_no_use_again() -> None:
    heard: list[Any] = []

    def listen(message: Any) -> Any:
        heard.append(message)
        return message

    spoil = {"SaslHandshakeRequest": listen, "SaslAuthenticateRequest": listen}
    log_in(server(), own(SHA_256, "alice", "secret"), **spoil)
    peer = server()
    assert [answered(peer.handle(message)) for message in heard] == [
        ErrorCode.NONE, ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED,
    ]  # fmt: skip


def answered(answer: Answer | None) -> int | None:
    response: Any = None if answer is None else answer.response
    return None if response is None else response.error_code


def token(data: bytes) -> kafka.SaslAuthenticateRequest:
    return kafka.SaslAuthenticateRequest(auth_bytes=data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0", b"\0\0", b"\0alice\0", b"\0\0secret", b"alice\0secret", b"\0alice\0secret\0x",
        b"bob\0alice\0secret", b"\0empty\0", b"\0ALICE\0secret", b"\0\xff\0secret",
        b"\0user_alice\0secret", b"\0username\0x",
    ],
    ids=repr,
)  # fmt: skip
def test_messages_of_plain_that_do_not_do(data: bytes) -> None:
    peer = server()
    peer.handle(kafka.SaslHandshakeRequest(mechanism="PLAIN"))
    assert answered(peer.handle(token(data))) == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert peer.principal is None


def test_the_order_of_requests_is_kept() -> None:
    plain = kafka.SaslHandshakeRequest(mechanism="PLAIN")
    good = token(b"\0alice\0secret")
    peer = server()
    assert answered(peer.handle(good)) == ErrorCode.ILLEGAL_SASL_STATE
    peer = server()
    assert answered(peer.handle(plain)) == ErrorCode.NONE
    assert answered(peer.handle(plain)) == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.handle(good) is None
    peer = server()
    unknown = peer.handle(kafka.SaslHandshakeRequest(mechanism="GSSAPI"))
    assert answered(unknown) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert unknown is not None
    assert unknown.is_failure
    peer = server()
    peer.handle(plain)
    large = token(b"\0alice\0" + b"x" * ALL.receive_bytes_max)
    assert answered(peer.handle(large)) == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_weaker_mechanism_is_not_to_be_had_by_asking() -> None:
    """A man in the middle who says that only PLAIN is spoken gets no password."""
    sent: list[Any] = []

    def only_plain(response: Any) -> Any:
        response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        response.mechanisms = ("PLAIN",)
        return response

    def note(request: Any) -> Any:
        sent.append(request)
        return request

    with pytest.raises(AuthenticationError, match="does not take SCRAM"):
        log_in(
            server(), own(SHA_256, "alice", "secret"),
            SaslHandshakeResponse=only_plain, SaslAuthenticateRequest=note,
        )  # fmt: skip
    assert sent == []
    only_scram = SaslConfig(mechanisms=(SHA_256,), logins={})
    with pytest.raises(AuthenticationError, match="does not take PLAIN"):
        log_in(server(only_scram), own(Mechanism.PLAIN, "alice", "secret"))


def test_a_login_ends_and_is_renewed_as_the_same() -> None:
    now = [0.0]
    lasting = SaslConfig(mechanisms=ALL.mechanisms, logins=ALL.logins, reauthentication_ms=1000)
    peer = server(lasting, lambda: now[0])
    assert log_in(peer, own(Mechanism.PLAIN, "alice", "secret")) == 1000
    now[0] = 0.999
    assert peer.allows()
    now[0] = 1.0
    assert not peer.allows()
    log_in(peer, own(Mechanism.PLAIN, "alice", "secret"))
    assert peer.allows()
    with pytest.raises(AuthenticationError):
        log_in(peer, own(Mechanism.PLAIN, "bob", "other"))
    assert not peer.allows()
    peer = server(lasting, lambda: now[0])
    log_in(peer, own(Mechanism.PLAIN, "alice", "secret"))
    with pytest.raises(AuthenticationError):  # By another mechanism, of another strength.
        log_in(peer, own(SHA_256, "alice", "secret"))


@given(st.lists(st.binary(max_size=60), max_size=4), st.sampled_from(list(Mechanism)))
def test_rubbish_is_refused(tokens: list[bytes], mechanism: Mechanism) -> None:
    peer = server()
    peer.handle(kafka.SaslHandshakeRequest(mechanism=mechanism))
    for data in tokens:
        peer.handle(token(data))
    assert peer.principal is None


@given(st.binary(max_size=80), st.text(max_size=10))
def test_rubbish_of_servers_is_refused(data: bytes, nonce: str) -> None:
    for read in (
        lambda: scram.read_server_first(data, nonce),
        lambda: scram.read_server_final(data),
        lambda: scram.read_client_first(data),
        lambda: scram.read_client_final(data),
    ):
        try:
            read()
        except ScramError:
            continue


def test_records_hold_credentials() -> None:
    credential = scram.credential_of(SHA_512, "secret", b"salt", 8192)
    record = kafka.UserScramCredentialRecord(
        name="alice", mechanism=2, salt=credential.salt, stored_key=credential.stored_key,
        server_key=credential.server_key, iterations=8192,
    )  # fmt: skip
    assert scram.credential_of_record(record) == credential
    assert len(credential.stored_key) == hashlib.sha512().digest_size
