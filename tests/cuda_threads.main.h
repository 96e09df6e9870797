/* Behind a text: HOST_KERNEL is the kernel that main(file, late) runs; the arenas are written back. */
static void *host_run(void *given) {
    const host_thread &me = *(const host_thread *)given;
    threadIdx.x = me.thread;
    blockIdx.x = me.number;
    gridDim.x = (unsigned)me.launch->blocks;
    blockDim.x = (unsigned)me.launch->threads;
    host_here = me.block;
    HOST_KERNEL((const void *)me.launch->table, nullptr, me.launch->chunk, 0, (nl_u32 *)me.launch->memory, 1);
    return nullptr;
}

static void host_check(bool fine, const char *what) {
    if (fine) return;
    perror(what);
    exit(2);
}

int main(int, char **words) {
    FILE *const file = fopen(words[1], "rb+");
    host_check(file != nullptr, words[1]);
    host_late = atoi(words[2]) != 0;
    long long many;
    host_launch launch;
    host_check(fread(&many, 8, 1, file) == 1 && fread(&launch, sizeof launch, 1, file) == 1, "head");
    struct arena { long long at, size, place; };
    std::vector<arena> arenas;
    for (long long k = 0; k < many; k++) {
        arena a;
        host_check(fread(&a.at, 8, 1, file) == 1 && fread(&a.size, 8, 1, file) == 1, "arena");
        a.place = ftell(file);
        const size_t pages = (size_t)(a.size + 4096) / 4096 * 4096;
        void *const at = mmap((void *)a.at, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        host_check(at == (void *)a.at, "mmap");
        host_check(fread(at, 1, (size_t)a.size, file) == (size_t)a.size, "content");
        arenas.push_back(a);
    }
    static nl_i64 step = 1;
    static nl_i32 status = 0;
    nl_run.step = &step;
    nl_run.status = &status;
    std::vector<host_block> blocks((size_t)launch.blocks);
    std::vector<host_thread> threads;
    for (host_block &b : blocks) {
        pthread_barrier_init(&b.barrier, nullptr, (unsigned)launch.threads);
        b.warps.resize((size_t)launch.threads / 32);
        b.given.resize((size_t)launch.threads);
        b.factors.resize((size_t)launch.threads);
        for (pthread_barrier_t &w : b.warps) pthread_barrier_init(&w, nullptr, 32);
        b.chip = (char *)aligned_alloc(16, (size_t)launch.shared);
        memset(b.chip, 0x7f, (size_t)launch.shared);
        const unsigned number = (unsigned)(&b - blocks.data());
        b.cluster = &b - number % HOST_CLUSTER;
        if (b.cluster == &b) pthread_barrier_init(&b.meeting, nullptr, HOST_CLUSTER * (unsigned)launch.threads);
        for (unsigned t = 0; t < launch.threads; t++) threads.push_back({&launch, &b, number, t});
    }
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    std::vector<pthread_t> running(threads.size());
    for (size_t t = 0; t < threads.size(); t++)
        host_check(pthread_create(&running[t], &small, host_run, &threads[t]) == 0, "thread");
    for (pthread_t t : running) pthread_join(t, nullptr);
    for (host_block &b : blocks) free(b.chip);
    for (const arena &a : arenas) {
        fseek(file, a.place, SEEK_SET);
        fwrite((const void *)a.at, 1, (size_t)a.size, file);
    }
    return fclose(file);
}
