# SPDX-License-Identifier: GPL-2.0-only
# Six processes write to one database. A process that finds it locked sleeps for some ms, and tries again.
cd /tmp
sqlite3 all.db 'create table pages (number integer primary key, text);'
for writer in 1 2 3 4 5 6; do
    {
        echo .timeout 60000
        i=0
        while [ $i -lt 100 ]; do
            echo "begin immediate;"
            echo "insert into pages (text) values ('$writer of $i');"
            echo "update pages set text = text || '.' where number % 50 = $i % 50;"
            echo "commit;"
            echo "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)"
            echo "    select sum(i) from n;"
            i=$((i + 1))
        done
    } >$writer.sql
done
for writer in 1 2 3 4 5 6; do sqlite3 all.db <$writer.sql & done
wait
