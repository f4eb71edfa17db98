"""The catalog: `Catalog`, the tables it knows by name, import of folders, SQL over several tables."""

from crdtcat.catalog.catalog import Catalog

__all__ = ["Catalog"]
