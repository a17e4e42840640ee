"""docs/OPERATIONS.md: each recipe is run by a test, which this file names; here are those that no other file runs."""

import grp
import json
import os
import re
import stat
import subprocess

import httpx
import pytest

from support.http import PLAIN, Sse
from support.program import BINARY, ENVIRONMENT, ROOT, encke
from support.server import Server
from support.wait import PATIENCE, until
from test_operations import GUIDE, promtool, replaced

# By heading of the guide: the tests that do what stands there.
RECIPES = {
    "A service": [
        "test_recipes::test_the_commands_install_a_service_whose_configuration_is_valid",
        "test_operations::test_systemd_takes_the_unit_and_finds_it_hardened",
        "test_operations::test_the_unit_allows_the_system_calls_that_the_server_makes",
        "test_start::test_socket_activation_and_notification",
        "test_recipes::test_the_unit_reloads_only_what_is_valid",
        "test_package::test_cargo_deb_makes_the_package",
        "test_package::test_an_installed_package_has_a_user_and_secrets_and_a_purge_leaves_nothing",
        "test_doctor::test_text_names_what_stops",
    ],
    "A container": [
        "test_recipes::test_the_settings_of_the_container_are_valid_with_identity_or_without_one_on_purpose",
        "test_container::test_the_image_is_built_from_nothing_and_runs_a_command_that_exists_and_not_as_root",
        "test_container::test_the_program_needs_no_more_than_the_c_library",
        "test_container::test_the_image_has_what_the_program_needs_and_nothing_else",
        "test_container::test_the_server_of_compose_serves_in_the_image_and_keeps_what_it_has",
        "test_container::test_the_secrets_of_compose_are_made_as_its_first_lines_say",
        "test_operations::test_a_pod_gets_longer_to_end_than_its_streams_and_is_probed_where_it_answers",
        "test_cluster_recipes::test_the_nodes_of_compose_have_flags_that_exist_and_time_to_end",
    ],
    "Health": [
        "test_operations::test_load_balancers_may_ask_the_public_listener",
        "test_drain::test_new_connections_are_refused_and_readiness_says_so",
        "test_cluster_operations::test_only_an_administrator_drains_a_node_and_it_is_not_ready_meanwhile",
    ],
    "Access log": [
        "test_recipes::test_the_access_log_has_lines_like_those_of_the_guide",
        "test_operations::test_logrotate_takes_the_file",
        "test_access_log::test_secrets_stay_out",
    ],
    "Behind a proxy": [
        "test_operations::test_all_transports_pass_through_each_proxy",
        "test_proxy_protocol::test_the_client_behind_a_proxy_is_served_and_reported",
    ],
    "Clients that do not read, and strangers": [
        "test_buffers::test_1400_readers_that_stop_do_not_get_a_server_of_300_mib_killed",
        "test_recipes::test_the_metrics_of_the_guide_exist",
    ],
    "Backup and restore": ["test_operations::test_a_backup_is_restored"],
    "Upgrade without loss": ["test_operations::test_an_upgrade_loses_nothing", "test_start::test_check_config"],
    "Capacity": [
        "test_operations::test_the_plan_says_what_the_guide_says",
        "test_operations::test_the_settings_of_the_plan_are_those_of_the_doctor_and_exist",
    ],
    "What to alert on": [
        "test_operations::test_alerts_fire_on_a_sick_server_and_not_on_a_healthy_one",
        "test_operations::test_alerts_are_about_metrics_that_exist_and_are_in_the_guide",
    ],
    "Latencies": [
        "test_recipes::test_prometheus_takes_the_query_and_the_guide_has_the_bounds",
        "test_recipes::test_the_metrics_of_the_guide_exist",
        "test_operations::test_promtool_finds_nothing_in_the_metrics",
    ],
}

# By file of contrib: the tests that use it.
FILES = {
    "contrib/encke.toml": ["test_operations::test_the_configuration_is_valid"],
    "contrib/systemd/encke.service": ["test_operations::test_systemd_takes_the_unit_and_finds_it_hardened"],
    "contrib/deb/": ["test_package::test_the_package_has_what_operators_need_where_they_look_for_it"],
    "contrib/logrotate/encke": ["test_operations::test_logrotate_takes_the_file"],
    "Dockerfile": ["test_container::test_the_image_is_built_from_nothing_and_runs_a_command_that_exists_and_not_as_root"],
    "contrib/container/": ["test_container::test_the_server_of_compose_serves_in_the_image_and_keeps_what_it_has"],
    "contrib/kubernetes/encke.yaml": [
        "test_cluster_recipes::test_the_nodes_of_kubernetes_have_flags_that_exist_probes_that_answer_and_time_to_end"
    ],
    "contrib/proxies/": ["test_operations::test_all_transports_pass_through_each_proxy"],
    "contrib/prometheus/alerts.yml": ["test_operations::test_alerts_fire_on_a_sick_server_and_not_on_a_healthy_one"],
    "contrib/grafana/encke.json": [
        "test_operations::test_the_dashboard_is_about_metrics_that_exist",
        "test_operations::test_each_metric_has_a_panel_or_a_reason_to_have_none",
    ],
}


def section(heading):
    return re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", GUIDE, re.DOTALL | re.MULTILINE)[1]


def test_each_recipe_and_each_file_has_a_test():
    assert re.findall(r"^## (.*)$", GUIDE, re.MULTILINE) == list(RECIPES)
    assert re.findall(r"^\| `([^`]+)` \| ", GUIDE.partition("\n## ")[0], re.MULTILINE) == list(FILES)
    for test in {test for tests in [*RECIPES.values(), *FILES.values()] for test in tests}:
        file, _, name = test.partition("::")
        text = (ROOT / "harness" / "tests" / f"{file}.py").read_text()
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"there is no {test}"


def test_the_commands_install_a_service_whose_configuration_is_valid(tmp_path):
    (block,) = re.findall(r"((?:^    \S.*\n)+)", section("A service"), re.MULTILINE)
    root, programs = tmp_path / "root", tmp_path / "bin"
    for directory in ("usr/bin", "etc/systemd/system"):
        (root / directory).mkdir(parents=True)
    # What changes the machine is written down.
    programs.mkdir()
    for program in ("useradd", "systemctl"):
        (programs / program).write_text(f'#!/bin/sh\necho {program} "$@" >> {tmp_path}/called\n')
        (programs / program).chmod(0o755)
    commands = re.sub(r" (/usr/bin|/etc)\b", rf" {root}\1", block)
    group = grp.getgrgid(os.getgid()).gr_name
    commands = replaced(commands, {"target/release/encke": BINARY, "-g encke": f"-g {group}", "chgrp encke": f"chgrp {group}"})
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", commands], cwd=ROOT, env=env, check=True, timeout=PATIENCE)
    assert (tmp_path / "called").read_text().splitlines() == ["useradd --system encke", "systemctl enable --now encke"]
    etc = root / "etc/encke"
    assert {path.name for path in etc.iterdir()} == {"encke.toml", "control-token", "jwt-secret"}
    for path in (etc, *etc.iterdir()):
        # The service may read it, and nobody else.
        assert stat.S_IMODE(path.stat().st_mode) & 0o047 == 0o040, path
    assert (root / "etc/systemd/system/encke.service").exists()
    paths = {"/etc/encke": etc, "/var/lib/encke": tmp_path / "data"}
    (etc / "encke.toml").write_text(replaced((etc / "encke.toml").read_text(), paths))
    checked = checked_file(etc / "encke.toml", program=root / "usr/bin/encke")
    assert checked.returncode == 0, checked.stderr


def checked_file(path, program=BINARY):
    env = {name: value for name, value in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
    command = [program, "serve", "--config", path, "--check-config"]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=PATIENCE)


def test_the_unit_reloads_only_what_is_valid(tmp_path):
    unit = (ROOT / "contrib/systemd/encke.service").read_text()
    reload, signal = re.findall(r"^ExecReload=(.*)$", unit, re.MULTILINE)
    # systemd runs them in turn, and stops at the first that fails.
    assert reload.split()[1:] == ["serve", "--config", "/etc/encke/encke.toml", "--check-config"]
    assert signal == "/bin/kill -HUP $MAINPID"
    (tmp_path / "encke.toml").write_text('heartbeet = "25s"\n')
    refused = checked_file(tmp_path / "encke.toml")
    assert refused.returncode == 2 and "heartbeet" in refused.stderr, refused.stderr


def test_the_settings_of_the_container_are_valid_with_identity_or_without_one_on_purpose(tmp_path):
    settings = re.findall(r'`((?:listen|data|history-dir) = [^`]+)`', section("A container"))
    assert len(settings) == 3, settings
    text = "\n".join(settings).replace("0.0.0.0:8000", "0.0.0.0:0").replace("/data", str(tmp_path / "data"))
    path = tmp_path / "encke.toml"
    path.write_text(text)
    refused = checked_file(path)
    assert refused.returncode != 0 and "allow-anonymous" in refused.stderr, refused.stderr
    path.write_text(f"{text}\nallow-anonymous = true\n")
    assert checked_file(path).returncode == 0
    secret = tmp_path / "secret"
    secret.write_text("0123456789-0123456789-0123456789-0123456789\n")
    secret.chmod(0o600)
    path.write_text(f'{text}\njwt-secret-file = ["{secret}"]\n')
    assert checked_file(path).returncode == 0


def test_the_access_log_has_lines_like_those_of_the_guide(start, tmp_path):
    text = section("Access log")
    (setting,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    folded = re.search(r"```json\n(.*?)```", text, re.DOTALL)[1]
    examples = [json.loads(line) for line in folded.replace("\n  ", "").splitlines()]
    log, config = tmp_path / "access.log", tmp_path / "encke.toml"
    config.write_text(replaced(setting, {"/var/log/encke/access.log": log}))
    server = start("--config", config)
    with Sse(server, "alice"):
        pass
    assert httpx.get(f"{server.public_url}/nothing", **PLAIN).status_code == 404
    lines = until(lambda: log.exists() and len(said := log.read_text().splitlines()) == 2 and said, "two lines")
    found = sorted((json.loads(line) for line in lines), key=lambda line: "method" in line)
    assert [set(line) for line in found] == [set(line) for line in examples]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The metrics of a server with all that the guide has: graph and history on disk, and an access log."""
    directory = tmp_path_factory.mktemp("measured")
    flags = ["--data", directory / "data", "--history-dir", directory / "history", "--access-log", directory / "access.log"]
    server = Server(*flags, env={"ENCKE_MEMORY": "false"})
    try:
        server.publish("rj", "hello")
        return server.api.get("/metrics").text
    finally:
        server.stop()


def test_the_metrics_of_the_guide_exist(measured):
    exist = set(re.findall(r"^(?:# TYPE )?(encke_\w+)", measured, re.MULTILINE))
    named = {name for name in re.findall(r"\bencke_\w+", GUIDE) if not name.endswith("_")}
    assert len(named) > 10 and named <= exist, named - exist


def test_prometheus_takes_the_query_and_the_guide_has_the_bounds(measured, tmp_path):
    text = section("Latencies")
    queries = re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    assert queries
    rules = [{"record": f"guide:query:{index}", "expr": query} for index, query in enumerate(queries)]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "guide", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "rules.json")
    for name in ("delivery", "publish"):
        bounds = re.findall(rf'^encke_{name}_latency_seconds_bucket{{[^}}]*le="([^"]+)"', measured, re.MULTILINE)
        finite = [float(bound) for bound in bounds if bound != "+Inf"]
        assert (min(finite), max(finite)) == (50e-6, 10.0), bounds


def test_a_configuration_can_be_checked_before_an_upgrade(tmp_path):
    """As the guide says: with the new program, beside the old one that runs."""
    assert "`encke serve --check-config`" in section("Upgrade without loss")
    server = Server("--data", tmp_path / "data", env={"ENCKE_MEMORY": "false"})
    try:
        flags = ["--listen", "%s:%d" % server.public, "--control", "%s:%d" % server.control]
        checked = encke("serve", *flags, "--data", tmp_path / "data", "--check-config", env=ENVIRONMENT | {"ENCKE_MEMORY": "false"})
        assert checked.returncode == 0, checked.stderr
    finally:
        server.stop()
