"""The features that Apache Kafka 4.4.0 formats a cluster with: levels, defaults, dependencies.

A metadata.version has a number and a name; every other feature has a default for each of them, and
a level may need a metadata.version. As ``kafka-storage version-mapping`` and
``feature-dependencies`` tell them (``MetadataVersion``, ``Feature``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
LEVEL_MIN: Final = 7
_NAMES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0",
    "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
    "4.4-IV0", "4.4-IV1", "4.4-IV2", "4.5-IV0",
)  # fmt: skip
LEVELS: Final = {name: level for level, name in enumerate(_NAMES, LEVEL_MIN)}
NAMES: Final = {level: name for name, level in LEVELS.items()}
LATEST_STABLE: Final = LEVELS["4.4-IV2"]
SCRAM_MIN: Final = LEVELS["3.5-IV2"]
_PARTS_OF_A_RELEASE: Final = 2
_INT16_MAX: Final = (1 << 15) - 1


class FeatureError(ValueError):
    """A release or a feature level that there is not, or not with the others."""


class Feature(NamedTuple):
    """A feature: its highest level, and since which metadata.version new clusters have it.

    ``before`` is the level that they had until then, and since when. ``needs`` is the
    metadata.version that the highest level depends on.
    """

    name: str
    level_max: int
    since: int
    before: tuple[int, int] = (0, 0)
    needs: int | None = None

    def default(self, metadata_version: int) -> int:
        """Return the level that a new cluster of a metadata.version has."""
        level, since = self.before
        if metadata_version >= self.since:
            return self.level_max
        return level if metadata_version >= since else 0


# In the order in which Kafka tells them.
FEATURES: Final = (
    Feature(KRAFT_VERSION, 1, LEVELS["3.9-IV0"]),
    Feature("transaction.version", 2, LEVELS["4.0-IV2"]),
    Feature("group.version", 1, LEVELS["4.0-IV0"]),
    Feature("eligible.leader.replicas.version", 1, LEVELS["4.1-IV0"], needs=LEVELS["4.0-IV1"]),
    Feature("share.version", 2, LEVELS["4.4-IV0"], before=(1, LEVELS["4.2-IV0"])),
    Feature("streams.version", 1, LEVELS["4.2-IV1"]),
)
BY_NAME: Final = {feature.name: feature for feature in FEATURES}


def release_level(text: str, *, allow_unstable: bool) -> int:
    """Return the metadata.version of ``4.3-IV0``, or the last of the release ``4.3`` or ``4.3.1``.

    Raises FeatureError, which names those that there are. A release is never an unstable one.
    """
    # Of "4.0.0-IV1" Kafka takes the release alone, too.
    release = ".".join(text.split(".")[:_PARTS_OF_A_RELEASE])
    if text in LEVELS and (allow_unstable or LEVELS[text] <= LATEST_STABLE):
        return LEVELS[text]
    of_release = [
        level
        for name, level in LEVELS.items()
        if name.partition("-")[0] == release and level <= LATEST_STABLE
    ]
    if not of_release:
        known = [name for name in _NAMES if allow_unstable or LEVELS[name] <= LATEST_STABLE]
        raise FeatureError(
            f"Unknown metadata.version '{text}'. Supported metadata.version are: {', '.join(known)}"
        )
    return of_release[-1]


def parse_level(text: str) -> tuple[str, int]:
    """Return the two sides of ``feature=level``, as ``format --feature`` takes it."""
    name, equals, level = text.partition("=")
    if not equals:
        raise FeatureError(f"Can't parse feature=level string {text}: equals sign not found.")
    refusal = f"Can't parse feature=level string {text}: unable to parse {level} as a short."
    return name.strip(), _short(level.strip(), refusal)


def _short(text: str, refusal: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len("32767") + 1:
        raise FeatureError(refusal)
    number = int(text)
    if not -_INT16_MAX - 1 <= number <= _INT16_MAX:
        raise FeatureError(refusal)
    return number


def metadata_level(level: int, *, allow_unstable: bool) -> int:
    """Return a metadata.version that is given as a number; FeatureError where it is none."""
    if level not in NAMES:
        raise FeatureError(
            f"No MetadataVersion with feature level {level}. Valid feature levels are from "
            f"{LEVEL_MIN} to {max(NAMES)}."
        )
    if level > LATEST_STABLE and not allow_unstable:
        raise FeatureError(f"metadata.version {NAMES[level]} is not yet stable.")
    return level


def effective_levels(metadata_version: int, given: dict[str, int]) -> dict[str, int]:
    """Return the level of every feature that is on, without metadata.version and kraft.version.

    ``given`` overrides the defaults of the release. In the order in which they are written.
    Raises FeatureError for a feature or a level that there is not, or that needs another one.
    """
    for name in given:
        if name not in BY_NAME:
            known = ", ".join(sorted(BY_NAME))
            raise FeatureError(f"Unsupported feature: {name}. Supported features are: {known}")
    levels = {}
    for feature in sorted(FEATURES):
        level = given.get(feature.name, feature.default(metadata_version))
        if not 0 <= level <= feature.level_max:
            raise FeatureError(f"No feature:{feature.name} with feature level {level}")
        needs = (feature.needs or 0) if level == feature.level_max else 0
        if metadata_version < needs:
            raise FeatureError(
                f"{feature.name} could not be set to {level} because it depends on "
                f"metadata.version level {needs}"
            )
        if level and feature.name != KRAFT_VERSION:
            levels[feature.name] = level
    return levels


def version_mapping(release: str | None) -> list[tuple[str, int]]:
    """Return (feature, level) of a release, metadata.version first; of the newest without one."""
    level = LATEST_STABLE if release is None else release_level(release, allow_unstable=True)
    return [(METADATA_VERSION, level), *((one.name, one.default(level)) for one in FEATURES)]


def dependencies(text: str) -> tuple[str, int, list[tuple[str, int]]]:
    """Return a feature and its level, of ``feature=level``, and what it depends on."""
    name, equals, digits = text.partition("=")
    if not equals:
        raise FeatureError(
            f"Invalid feature format: {text}. Expected format: 'feature=version' "
            f"(e.g. 'group.version=1')"
        )
    level = _short(digits, f"Invalid version format: {digits} for feature {name}")
    if name == METADATA_VERSION:
        if level not in NAMES:
            raise FeatureError(f"Unknown metadata.version {level}")
        return name, level, []
    if name not in BY_NAME:
        raise FeatureError(f"Unknown feature: {name}")
    feature = BY_NAME[name]
    if not 0 <= level <= feature.level_max:
        raise FeatureError(f"Feature level {level} is not supported for feature {name}")
    needs = feature.needs if level == feature.level_max else None
    return name, level, [] if needs is None else [(METADATA_VERSION, needs)]
