/* Rings of slots, one text for C11 and for CUDA C++: what is kept or delivered step by step.

   Assumes: NL_FN and the integer types; step >= 0, 0 <= late < slots.
   Guarantees: step s has slot s mod slots; the step that is `late` steps after or before the one of slot `now` is found
   without a division. */
#ifndef NL_RINGS_H
#define NL_RINGS_H

/* step mod slots; the division of 32 bits is much the faster one. */
NL_FN nl_i64 nl_slot(nl_i64 step, nl_i64 slots) {
    return ((step | slots) >> 32) == 0 ? (nl_i64)((nl_u32)step % (nl_u32)slots) : step % slots;
}
NL_FN nl_i64 nl_later(nl_i64 now, nl_i64 late, nl_i64 slots) {
    const nl_i64 slot = now + late;
    return slot < slots ? slot : slot - slots;
}
NL_FN nl_i64 nl_earlier(nl_i64 now, nl_i64 late, nl_i64 slots) { return nl_later(now, slots - late, slots); }

#endif
