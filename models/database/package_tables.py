"""The bases of packages' tables. The desk's own tables are registered before the first of a package: of two with one
name, the package's is the one that fails."""

from __future__ import annotations

from chordesk.models.database.store import core_tables
from chordesk.models.tables.columns import Dated as Dated
from chordesk.models.tables.columns import DeskTable as DeskTable
from chordesk.models.tables.columns import Identified as Identified
from chordesk.models.tables.columns import Utc as Utc
from chordesk.models.tables.columns import utcnow as utcnow

core_tables()
