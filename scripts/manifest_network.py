"""What pods may reach: all is denied but what is allowed, and what the settings name is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scripts.manifest_tree import Tree, scraped

ADDRESSES = ("S3_ENDPOINT_URL", "LLM_ENDPOINT", "LLM_GATEWAY_URL")
ALL_BUT_THE_STORE = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["minio"]}]}
_INSIDE = re.compile(r"^[^.]+$|\.svc(\.cluster\.local)?$")


def network(tree: Tree) -> Iterator[str]:
    """All is denied but what is allowed; DNS on 5353, both protocols."""
    policies = {item["metadata"]["name"]: item["spec"] for item in tree.of("NetworkPolicy")}
    deny = policies.get("default-deny", {})
    if (
        deny.get("podSelector") != {}
        or set(deny.get("policyTypes", [])) != {"Ingress", "Egress"}
        or {"ingress", "egress"} & deny.keys()
    ):
        yield "NetworkPolicy default-deny does not deny everything"
    for need in ("allow-dns", "allow-api-server", "allow-monitoring"):
        if policies.get(need, {}).get("podSelector") != {}:
            yield f"NetworkPolicy {need} is not there for every pod"
    if policies.get("allow-same-namespace", {}).get("podSelector") != ALL_BUT_THE_STORE:
        yield "NetworkPolicy allow-same-namespace is not there for every pod but the store"
    store = policies.get("allow-store", {}).get("ingress", [{}])
    if [[port["port"] for port in rule.get("ports", [])] for rule in store] != [[9000]]:
        yield "NetworkPolicy allow-store does not open 9000 alone: other ports of a store ask for no keys"
    dns = policies.get("allow-dns", {}).get("egress", [{}])[0]
    ports = {(port["protocol"], port["port"]) for port in dns.get("ports", [])}
    target = dns.get("to", [{}])[0].get("namespaceSelector", {}).get("matchLabels", {})
    if ports != {("UDP", 5353), ("TCP", 5353)}:
        yield "NetworkPolicy allow-dns does not open UDP and TCP 5353"
    if target != {"kubernetes.io/metadata.name": "openshift-dns"}:
        yield "NetworkPolicy allow-dns does not name openshift-dns"
    opened = policies.get("allow-monitoring", {}).get("ingress", [{}])[0].get("ports", [])
    open_ports = {port["port"] for port in opened}
    for monitor, service, port in scraped(tree):
        if port["port"] not in open_ports:
            yield f"ServiceMonitor {monitor}: allow-monitoring does not open {port['port']} of {service}"


def addresses(tree: Tree) -> Iterator[str]:
    """What settings name outside of the cluster can be reached by every pod that has the setting."""
    maps = {item["metadata"]["name"]: item.get("data", {}) for item in tree.of("ConfigMap")}
    policies = [item["spec"] for item in tree.of("NetworkPolicy")]
    for owner, labels, pod in tree.pods():
        found: dict[str, str] = {}
        for container in pod["containers"]:
            for source in container.get("envFrom", []):
                found |= maps.get(source["configMapRef"]["name"], {})
            found |= {each["name"]: each.get("value", "") for each in container.get("env", [])}
        for name in ADDRESSES:
            url = urlsplit(found.get(name, ""))
            if not url.hostname or _INSIDE.search(url.hostname):
                continue
            port = url.port or (443 if url.scheme == "https" else 80)
            if not any(_lets_out(policy, labels, port) for policy in policies):
                yield (
                    f"{owner}: {name}={found[name]}, and no NetworkPolicy lets it out to port {port}: "
                    "add one, as components/external-store has"
                )


def _lets_out(policy: dict[str, Any], labels: dict[str, str], port: int) -> bool:
    wanted = policy["podSelector"].get("matchLabels", {})
    return wanted.items() <= labels.items() and any(
        ("to" not in rule or any("ipBlock" in target for target in rule["to"]))
        and port in [each.get("port") for each in rule.get("ports", [{"port": port}])]
        for rule in policy.get("egress", [])
    )
