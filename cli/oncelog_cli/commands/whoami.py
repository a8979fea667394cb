"""``oncelog whoami`` asks a broker as whom it knows whoever uses this command line."""

from __future__ import annotations

from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.answer import fields_of
from oncelog_cli.render import Column, Output

FIELDS = "principal authenticated_by address listener broker_id cluster_id authorizer"
COLUMNS = (
    Column("PRINCIPAL", "principal"),
    Column("BY", "authenticated_by"),
    Column("ADDRESS", "address"),
    Column("LISTENER", "listener"),
    Column("BROKER", "broker_id", right=True),
    Column("CLUSTER", "cluster_id"),
    Column("AUTHORIZER", "authorizer"),
)
BY = {"": "nothing: you are anonymous", "CERTIFICATE": "your certificate"}
AUTHORIZERS = {
    "none": "none: everybody may do everything",
    "acl": "acl: see 'oncelog acls list --effective --user'",
}


def whoami(output: Output, cluster: NamedCluster) -> None:
    """Show as whom a broker knows you, by what, and whether ACLs count there."""
    row = fields_of(cluster.ask(lambda admin: admin.whoami()), FIELDS)
    by, authorizer = row["authenticated_by"], row["authorizer"]
    output.line(f"principal   {row['principal']}")
    output.line(f"known by    {BY.get(by, by)}")
    output.line(f"listener    {row['listener']} of broker {row['broker_id']}, {row['address']}")
    output.line(f"cluster     {row['cluster_id']}")
    output.line(f"authorizer  {AUTHORIZERS.get(authorizer, authorizer)}")
    output.finish(row, COLUMNS, [row])
