// A program that says how it was started: by which arguments, and in which environment.
#include <stdio.h>
#include <string.h>

extern char **environ;

int main(int count, char **arguments) {
    unsigned others = 0, hash = 5381;
    const char *preload = "none";
    for (int at = 0; at < count; at++)
        printf("%s ", strrchr(arguments[at], '/') ? "path" : arguments[at]);
    for (char **next = environ; *next; next++)
        if (!strncmp(*next, "LD_PRELOAD=", 11)) {
            preload = *next + 11;
        } else if (strncmp(*next, "SIDECORE_", 9)) {
            others++;
            for (char *byte = *next; *byte; byte++)
                hash = hash * 33 + *byte;
        }
    printf("others %u %08x preload %s\n", others, hash, preload);
    return 7;
}
