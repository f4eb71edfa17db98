"""The command line: `crdtcat`, a door over `Catalog` and `Table` for people at a terminal and for cron.

Each command is one verb, called as a program would call it; what it prints is what the verb returned. This
package is the only place of the library that reads the environment: `CRDTCAT_CATALOG` and
`CRDTCAT_STORAGE_OPTIONS`.
"""
