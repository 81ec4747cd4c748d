// SPDX-License-Identifier: GPL-2.0-only
// Work of a fixed number of instructions, for clocks that count them: `burn TASKS` or `pass TIMES`.
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOPS 40000000

static void burn(int tasks)
{
	while (tasks--)
		if (!fork()) {
			for (volatile long done = 0; done < LOOPS; done++)
				;
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
}

static void stay_on(int cpu)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		exit(1);
}

// Two tasks pass a byte forth and back, each on a CPU of its own.
static void pass(int times)
{
	int forth[2], back[2];
	char byte = 0;
	int second;

	if (pipe(forth) || pipe(back))
		exit(1);
	second = !fork();
	stay_on(second);
	while (times--) {
		if (!second && write(forth[1], &byte, 1) != 1)
			exit(1);
		if (read(second ? forth[0] : back[0], &byte, 1) != 1)
			exit(1);
		if (second && write(back[1], &byte, 1) != 1)
			exit(1);
	}
	if (second)
		_exit(0);
	wait(NULL);
}

int main(int count, char **words)
{
	if (count == 3 && !strcmp(words[1], "burn"))
		burn(atoi(words[2]));
	else if (count == 3 && !strcmp(words[1], "pass"))
		pass(atoi(words[2]));
	else
		return 2;
	return 0;
}
