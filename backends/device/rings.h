/* Rings of slots, one text for C11, CUDA C++ and OpenCL C: what is kept or delivered step by step.

   Assumes: NL_FN and the integer types; step >= 0, 0 <= late < slots < 2^31.
   Guarantees: step s has slot s mod slots; the step that is `late` steps after or before the one of slot `now` is found
   without a division. */
#ifndef NL_RINGS_H
#define NL_RINGS_H

/* step mod slots by divisions of 32 bits, which are much faster. */
NL_FN nl_i64 nl_slot(nl_i64 step, nl_i64 slots) {
    const nl_u32 few = (nl_u32)slots;
    nl_u64 x = (nl_u64)step;
    /* 2^32 leaves the same rest as the factor */
    while (x >> 32) x = (x >> 32) * ((nl_u64)(0xffffffffu % few) + 1) + (nl_u32)x;
    return (nl_i64)((nl_u32)x % few);
}
#if defined(__CUDACC__)
NL_FN nl_u32 nl_later(nl_u32 now, nl_u32 late, nl_u32 slots) {
    const nl_u32 slot = now + late;
    return slot < slots ? slot : slot - slots;
}
NL_FN nl_u32 nl_earlier(nl_u32 now, nl_u32 late, nl_u32 slots) { return nl_later(now, slots - late, slots); }
/* Element i of a slot of `size`. */
NL_FN nl_i64 nl_in_slot(nl_u32 slot, nl_u32 size, nl_u32 i) { return (nl_i64)((nl_u64)slot * size + i); }
#else
NL_FN nl_i64 nl_later(nl_i64 now, nl_i64 late, nl_i64 slots) {
    const nl_i64 slot = now + late;
    return slot < slots ? slot : slot - slots;
}
NL_FN nl_i64 nl_earlier(nl_i64 now, nl_i64 late, nl_i64 slots) { return nl_later(now, slots - late, slots); }
#endif

#endif
