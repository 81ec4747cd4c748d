# SPDX-License-Identifier: GPL-2.0-only
# Fails with each program of $POLICIES above its budget, in the form of $BUDGETS.
cat >budgets <<X
$BUDGETS
X
$P guest verified $POLICIES >walked 2>err || fail "not verified"
for policy in $POLICIES; do grep -q "^$policy " walked || fail "no program of $policy"; done
awk 'NR == FNR { most[$1, $2] = $3; next }
    $3 > (($1, $2) in most ? most[$1, $2] : 1000) { printf "%s; ", $0; above = 1 }
    END { exit above }' budgets walked >above || fail "above their budgets: $(cat above)"
