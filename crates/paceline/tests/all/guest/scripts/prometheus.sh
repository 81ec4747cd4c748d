# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# A real Prometheus scrapes the service, with the rules of the package.
dpkg -i "$deb" >log 2>&1 || fail "not installed: $(cat log)"
printf 'policy = "paceline"\n[metrics]\nlisten = "127.0.0.1:9469"\n' >/etc/paceline/paceline.toml
strict
ip link set lo up
systemctl start paceline || fail 'no start'
[ "$(ops)" = paceline ] || fail "$(ops) is in charge"
cat >/etc/prometheus/prometheus.yml <<'END'
global:
  scrape_interval: 2s
  evaluation_interval: 2s
rule_files:
  - /usr/share/paceline/paceline.rules.yml
scrape_configs:
  - job_name: paceline
    static_configs:
      - targets: ["127.0.0.1:9469"]
END
promtool check config /etc/prometheus/prometheus.yml >out 2>&1 || fail "$(cat out)"
systemctl restart prometheus || fail "no Prometheus: $(journalctl -q -u prometheus -n 5 -o cat)"
ask() { promtool query instant http://127.0.0.1:9090 "$1" 2>&1; }
# Its last value of a query; 0 without one.
value() { ask "$1" | awk '{ for (at = 1; at < NF; at++) if ($at == "=>") told = $(at + 1) } END { print told + 0 }'; }
await '[ "$(value "up{job=\"paceline\"}")" = 1 ]'
await '[ "$(value "paceline_policy_in_charge{policy=\"paceline\"}")" = 1 ]'

# What tasks had, as rates and as quantiles, while a service has a CPU.
systemd-run -q --unit=hog sh -c 'while :; do :; done'
hog='cgroup="/system.slice/hog.service"'
await '[ "$(value "rate(paceline_cgroup_cpu_seconds_total{$hog}[10s]) > bool 0.3")" = 1 ]'
await '[ "$(value "histogram_quantile(0.99, rate(paceline_cgroup_wait_seconds_bucket{$hog}[20s])) > bool 0")" = 1 ]'

# Each query of the dashboard has an answer; these three need an event, counters of energy, or a policy that counts.
sed -n 's/^ *"expr": "\(.*\)",$/\1/p' /usr/share/paceline/grafana.json |
    sed 's/\\"/"/g; s/\$__rate_interval/20s/g; s/\$__interval/20s/g; s/\$instance/.*/g' >queries
[ "$(wc -l <queries)" -ge 13 ] || fail "only these: $(cat queries)"
while read -r query; do
    ask "$query" >answer || fail "$query: $(cat answer)"
    case $query in
        changes* | *energy* | *policy_count*) ;;
        *) grep -q '=>' answer || fail "nothing for $query" ;;
    esac
done <queries
systemctl stop hog

longest=$(value 'max_over_time(scrape_duration_seconds[10m])')

# Alerts of the package: all are loaded, none is wrong, and one fires that should.
rules() { ask 'count(ALERTS{alertstate=~"pending|firing"}) by (alertname)'; }
[ "$(journalctl -q -u prometheus -o cat | grep -c 'Evaluating rule failed')" = 0 ] || fail 'a rule fails'
systemctl stop paceline
await 'rules | grep -q PacelineDown'
echo "scraped; a scrape took $longest s at most"
