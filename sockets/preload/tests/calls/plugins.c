// A plugin sends on a connection that the program sends on, too. `plugins SECONDS`, and the plugin's path by PLUGIN.
#include "connection.h"
#include <dlfcn.h>

static void plugged(const char *name, int is_new, int flags) {
    pid_t child = fork();
    if (child == 0) {
        struct connection on = connection(SOCK_CLOEXEC);
        const char *path = getenv("PLUGIN");
        void *plugin = is_new ? dlmopen(LM_ID_NEWLM, path, flags) : dlopen(path, flags);
        if (!plugin)
            die(dlerror());
        ssize_t (*writes)(int, const void *, size_t) = dlsym(plugin, "writes");
        for (int round = 0; round < 50; round++) {
            char bytes[64];
            warm(&on);
            fill(&on, bytes, sizeof bytes);
            if (writes(on.here, bytes, sizeof bytes) != sizeof bytes)
                die("a plugin");
        }
        hear_all(name, &on);
        exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void) {
    plugged("dlopen", 0, RTLD_NOW);
    plugged("dlopen with RTLD_DEEPBIND", 0, RTLD_NOW | RTLD_DEEPBIND);
    plugged("dlmopen", 1, RTLD_NOW);
    struct connection on = connection(SOCK_CLOEXEC);
    warm(&on);
    hear_all("without a plugin", &on);
    return 0;
}
