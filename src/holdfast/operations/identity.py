"""Who may do what: roles, what they permit, and the identity of a person or a program that sends a request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdfast.errors import Forbidden
from holdfast.operations.scope import Scope
from holdfast.store.audit_rows import Origin

EVERY_TENANT = "*"
"""The tenant of an identity that administers the whole installation."""


class Permission(StrEnum):
    """What a request needs."""

    PUBLIC = "public"
    """Nothing: it works without a credential."""
    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    WORK = "work"
    ADMIN = "admin"


class Role(StrEnum):
    """What an identity is for."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    WORKER = "worker"
    ADMIN = "admin"


PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.READ}),
    Role.SUBMITTER: frozenset({Permission.READ, Permission.SUBMIT}),
    Role.OPERATOR: frozenset({Permission.READ, Permission.SUBMIT, Permission.OPERATE}),
    Role.WORKER: frozenset({Permission.WORK}),
    Role.ADMIN: frozenset(Permission),
}


@dataclass(frozen=True, slots=True)
class Identity:
    """A person or a program, as a credential shows it."""

    name: str
    """What histories call it."""
    tenant: str
    roles: tuple[Role, ...]
    key: str | None = None
    """The prefix of its API key."""
    session: str | None = None
    """The hash of the cookie of its browser session."""
    expires_at: datetime | None = None
    """When its credential ends at the latest."""

    @property
    def credential(self) -> tuple[str, str]:
        """What shows that it is who it is: its kind, and which one."""
        if self.session is not None:
            return "session", self.session
        return ("key", self.key) if self.key is not None else ("token", self.name)

    @property
    def permissions(self) -> frozenset[Permission]:
        return frozenset({Permission.PUBLIC}).union(*(PERMISSIONS[role] for role in self.roles))

    @property
    def is_installation_admin(self) -> bool:
        return self.tenant == EVERY_TENANT and Role.ADMIN in self.roles

    def refuse_without(self, permission: Permission) -> None:
        if permission not in self.permissions:
            roles = ", ".join(role for role, given in PERMISSIONS.items() if permission in given)
            raise Forbidden(
                f"This needs the permission {permission}, which {self.name} does not have.",
                remedy=f"Use a key with one of these roles: {roles}.",
            )

    @property
    def principal(self) -> str:
        """The identity in words that no other one has: keys may share a name."""
        return f"key:{self.key}" if self.key is not None else f"name:{self.name}"

    def scope(
        self,
        tenant: str,
        *,
        address: str | None = None,
        request_id: str | None = None,
        traceparent: str | None = None,
    ) -> Scope:
        key_prefix = f"hf_{self.key}" if self.key is not None else None
        origin = Origin(key_prefix, address, request_id)
        return Scope(
            tenant,
            self.name,
            origin,
            administers=self.is_installation_admin,
            submitter=self.principal,
            traceparent=traceparent,
        )
