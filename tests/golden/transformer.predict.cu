/* ==== kernels ==================================================================================== */

/* ---- k0  dense_1.weight: initial value (uniform)  (models/transformer.yaml:19:7) */

struct k0_row {
    real *x_; /* real [i], written */
    nl_i64 n_;
    nl_u64 key_;
    alignas(8) real low_;
    alignas(8) real high_;
};

NL_FN void k0_initial_value_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k0_row *const self = (const k0_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_ = self->n_;
    const nl_u64 key_ = self->key_;
    const real low_ = self->low_;
    const real high_ = self->high_;
    const nl_i64 nl_end = nl_least(n_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + threadIdx.x; i < nl_end; i += blockDim.x) {
        real x_ = low_ + (high_ - low_) * nl_uniform_f32(key_, (nl_u64)i, (nl_u64)step, 0u);
        nl_wait();
        x_p_[i] = x_;
    }
    nl_wait();
}
extern "C" __global__ void NL_BLOCK k0_initial_value(NL_ARGUMENTS) { k0_initial_value_block(NL_TASK(k0_row)); }


/* ---- k1  positions_1.weight: initial value (normal)  (models/transformer.yaml:20:7) */

struct k1_row {
    real *x_; /* real [i], written */
    nl_i64 n_;
    nl_u64 key_;
    alignas(8) real mean_;
    alignas(8) real std_;
};

NL_FN void k1_initial_value_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k1_row *const self = (const k1_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_ = self->n_;
    const nl_u64 key_ = self->key_;
    const real mean_ = self->mean_;
    const real std_ = self->std_;
    const nl_i64 nl_end = nl_least(n_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + threadIdx.x; i < nl_end; i += blockDim.x) {
        real x_ = mean_ + std_ * nl_normal_f32(key_, (nl_u64)i, (nl_u64)step, 0u);
        nl_wait();
        x_p_[i] = x_;
    }
    nl_wait();
}
extern "C" __global__ void NL_BLOCK k1_initial_value(NL_ARGUMENTS) { k1_initial_value_block(NL_TASK(k1_row)); }


/* ---- k2  layer_norm_1.weight: initial value (constant)  (models/transformer.yaml:25:13) */

struct k2_row {
    real *x_; /* real [i], written */
    nl_i64 n_;
    alignas(8) real value_;
};

NL_FN void k2_initial_value_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k2_row *const self = (const k2_row *)nl_t.self;
    real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_ = self->n_;
    const real value_ = self->value_;
    nl_wait();
    const nl_i64 nl_end = nl_least(n_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + threadIdx.x; i < nl_end; i += blockDim.x) {
        real x_ = value_;
        x_p_[i] = x_;
    }
}
extern "C" __global__ void NL_BLOCK k2_initial_value(NL_ARGUMENTS) { k2_initial_value_block(NL_TASK(k2_row)); }


/* ---- k3  image: batch of data.image  (models/transformer.yaml:15:5) */

struct k3_row {
    real *y_; /* real [row][f], written */
    const nl_i32 *order_; /* nl_i32 [k], read */
    const real *data_; /* real [example][f], read */
    nl_i64 n_f_;
    nl_i64 n_row_;
    nl_i64 batches_;
    nl_i64 padded_;
    alignas(8) real factor_;
};

NL_FN void k3_batch_of_data_image_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k3_row *const self = (const k3_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const nl_i32 *__restrict__ const order_p_ = nl_global(self->order_);
    const real *__restrict__ const data_p_ = nl_global(self->data_);
    const nl_i64 n_f_ = self->n_f_;
    const nl_i64 n_row_ = self->n_row_;
    const nl_i64 batches_ = self->batches_;
    const nl_i64 padded_ = self->padded_;
    const real factor_ = self->factor_;
    nl_wait();
    const nl_i64 nl_end = nl_least(n_row_ * n_f_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + threadIdx.x; e < nl_end; e += blockDim.x) {
        nl_u64 rest = e;
        const nl_i64 f = nl_take(rest, n_f_);
        const nl_i64 row = rest;
        nl_i64 k_ = nl_mod_i64(step - 1LL, batches_) * padded_ + row;
        const nl_i32 order_ = order_p_[k_];
        nl_i32 example_ = nl_max_i32(order_, 0);
        const real data_ = data_p_[example_ * n_f_ + f];
        real y_ = data_ * factor_;
        y_p_[row * n_f_ + f] = y_;
    }
}
extern "C" __global__ void NL_BLOCK k3_batch_of_data_image(NL_ARGUMENTS) { k3_batch_of_data_image_block(NL_TASK(k3_row)); }


/* ---- k4  positions.y: implicit gemm  (models/transformer.yaml:19:7) */

struct k4_row {
    real *y_; /* real [n][t0][o], written */
    const real *x0_; /* real [n][t0][k], read */
    const real *x1_; /* real [o][k], read */
    const real *e0_; /* real [t0][o], read */
    const real *e1_; /* real [o], read */
    nl_i64 n_n_;
    nl_i64 n_t0_;
    nl_i64 n_o_;
    nl_i64 n_k_;
    nl_i64 y_by_n_;
    nl_i64 y_by_t0_;
    nl_i64 x0_by_n_;
    nl_i64 x0_by_t0_;
    nl_i64 x1_by_o_;
    nl_i64 e0_by_t0_;
    nl_i64 s_tile_;
    nl_i64 s_splits_;
    nl_i64 s_depth_;
    nl_i64 scratch_bytes_;
};

NL_PART void k4_implicit_gemm_product(const k4_row *self, nl_i64 step, nl_product &nl_p)
{
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_n_ = self->n_n_;
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 n_o_ = self->n_o_;
    const nl_i64 n_k_ = self->n_k_;
    const nl_i64 x0_by_n_ = self->x0_by_n_;
    const nl_i64 x0_by_t0_ = self->x0_by_t0_;
    const nl_i64 x1_by_o_ = self->x1_by_o_;
    const nl_i64 s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x0_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x0_by_n_;
    nl_p.of[0].side.steps[1].by = x0_by_t0_;
    nl_p.of[0].side.steps[1].extent = n_t0_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = x1_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = x1_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t0_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k4_implicit_gemm_store(const k4_row *self, nl_i64 step, const nl_sums &nl_s)
{
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const e0_p_ = nl_global(self->e0_);
    const real *__restrict__ const e1_p_ = nl_global(self->e1_);
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 y_by_n_ = self->y_by_n_;
    const nl_i64 y_by_t0_ = self->y_by_t0_;
    const nl_i64 e0_by_t0_ = self->e0_by_t0_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t0 = nl_take(rest, (nl_u32)n_t0_);
        const nl_i64 n = rest;
        const real acc = nl_s.at[nl_e];
        const real e0_ = e0_p_[t0 * e0_by_t0_ + o];
        const real e1_ = e1_p_[o];
        real y_ = acc + e1_ + e0_;
        y_p_[n * y_by_n_ + t0 * y_by_t0_ + o] = y_;
    }
}


/* ---- k5  layer_norm.mean: sum over d2  (models/transformer.yaml:25:13) */

struct k5_row {
    real *y_; /* real [d0], written */
    const real *x0_; /* real [d0][d2], read */
    nl_i64 n_d0_;
    nl_i64 n_d2_;
    nl_i64 x0_by_d0_;
    alignas(8) real share_;
};

NL_FN void k5_sum_over_d2_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k5_row *const self = (const k5_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d2_ = self->n_d2_;
    const nl_i64 x0_by_d0_ = self->x0_by_d0_;
    const real share_ = self->share_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(n_d0_, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end;
            e += blockDim.x >> nl_bits) {
        const nl_i64 d0 = e;
        real acc = 0.0f;
        const nl_i64 nl_terms = n_d2_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 r = nl_first;
        const auto nl_more = [&](int) {
            const nl_i64 d2 = r;
            const real x0_ = x0_p_[d0 * x0_by_d0_ + d2];
            acc += x0_ * share_;
            r += nl_group;
        };
#pragma unroll 1
        while (r + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (r < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all = nl_joined<real, nl_sum_of<real>>(
                acc, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.value;
        }
        if (nl_lane == 0) {
            real y_ = acc;
            y_p_[d0] = y_;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k5_sum_over_d2(NL_ARGUMENTS) { k5_sum_over_d2_block(NL_TASK(k5_row)); }


/* ---- k6  layer_norm.inverse: sum over d2  (models/transformer.yaml:25:13) */

struct k6_row {
    real *y_; /* real [d0][d1], written */
    const real *x0_; /* real [d0][d1][d2], read */
    const real *x1_; /* real [d0][d1], read */
    nl_i64 n_d0_;
    nl_i64 n_d1_;
    nl_i64 n_d2_;
    nl_i64 y_by_d0_;
    nl_i64 x0_by_d0_;
    nl_i64 x0_by_d1_;
    nl_i64 x1_by_d0_;
    alignas(8) real share_;
    alignas(8) real epsilon_;
};

NL_FN void k6_sum_over_d2_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k6_row *const self = (const k6_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d1_ = self->n_d1_;
    const nl_i64 n_d2_ = self->n_d2_;
    const nl_i64 y_by_d0_ = self->y_by_d0_;
    const nl_i64 x0_by_d0_ = self->x0_by_d0_;
    const nl_i64 x0_by_d1_ = self->x0_by_d1_;
    const nl_i64 x1_by_d0_ = self->x1_by_d0_;
    const real share_ = self->share_;
    const real epsilon_ = self->epsilon_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(n_d0_ * n_d1_, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end;
            e += blockDim.x >> nl_bits) {
        nl_u64 rest = e;
        const nl_i64 d1 = nl_take(rest, n_d1_);
        const nl_i64 d0 = rest;
        real acc = 0.0f;
        const nl_i64 nl_terms = n_d2_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 r = nl_first;
        const auto nl_more = [&](int) {
            const nl_i64 d2 = r;
            const real x0_ = x0_p_[d0 * x0_by_d0_ + d1 * x0_by_d1_ + d2];
            const real x1_ = x1_p_[d0 * x1_by_d0_ + d1];
            acc += (x0_ - x1_) * (x0_ - x1_) * share_;
            r += nl_group;
        };
#pragma unroll 1
        while (r + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (r < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all = nl_joined<real, nl_sum_of<real>>(
                acc, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.value;
        }
        if (nl_lane == 0) {
            real y_ = 1.0f / nl_sqrt_f32(acc + epsilon_);
            y_p_[d0 * y_by_d0_ + d1] = y_;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k6_sum_over_d2(NL_ARGUMENTS) { k6_sum_over_d2_block(NL_TASK(k6_row)); }


/* ---- k7  layer_norm.scaled: elementwise  (models/transformer.yaml:25:13) */

struct k7_row {
    real *y_; /* real [d0][d2], written */
    const real *x0_; /* real [d2], read */
    const real *x1_; /* real [d2], read */
    const real *x2_; /* real [d0][d2], read */
    const real *x3_; /* real [d0], read */
    const real *x4_; /* real [d0], read */
    nl_i64 n_d0_;
    nl_i64 n_d2_;
    nl_i64 y_by_d0_;
    nl_i64 x2_by_d0_;
};

NL_FN void k7_elementwise_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k7_row *const self = (const k7_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const real *__restrict__ const x2_p_ = nl_global(self->x2_);
    const real *__restrict__ const x3_p_ = nl_global(self->x3_);
    const real *__restrict__ const x4_p_ = nl_global(self->x4_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d2_ = self->n_d2_;
    const nl_i64 y_by_d0_ = self->y_by_d0_;
    const nl_i64 x2_by_d0_ = self->x2_by_d0_;
    nl_wait();
    const nl_i64 nl_end = nl_least(n_d0_ * n_d2_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + threadIdx.x; e < nl_end; e += blockDim.x) {
        nl_u64 rest = e;
        const nl_i64 d2 = nl_take(rest, n_d2_);
        const nl_i64 d0 = rest;
        const real x0_ = x0_p_[d2];
        const real x1_ = x1_p_[d2];
        const real x2_ = x2_p_[d0 * x2_by_d0_ + d2];
        const real x3_ = x3_p_[d0];
        const real x4_ = x4_p_[d0];
        real y_ = (x2_ - x3_) * x4_ * x0_ + x1_;
        y_p_[d0 * y_by_d0_ + d2] = y_;
    }
}
extern "C" __global__ void NL_BLOCK k7_elementwise(NL_ARGUMENTS) { k7_elementwise_block(NL_TASK(k7_row)); }


/* ---- k8  seen.query.biased: implicit gemm  (models/transformer.yaml:26:13) */

struct k8_row {
    real *y_; /* real [n][t0][o], written */
    const real *x0_; /* real [n][t0][k], read */
    const real *x1_; /* real [o][k], read */
    const real *e0_; /* real [o], read */
    nl_i64 n_n_;
    nl_i64 n_t0_;
    nl_i64 n_o_;
    nl_i64 n_k_;
    nl_i64 y_by_n_;
    nl_i64 y_by_t0_;
    nl_i64 x0_by_n_;
    nl_i64 x0_by_t0_;
    nl_i64 x1_by_o_;
    nl_i64 s_tile_;
    nl_i64 s_splits_;
    nl_i64 s_depth_;
    nl_i64 scratch_bytes_;
};

NL_PART void k8_implicit_gemm_product(const k8_row *self, nl_i64 step, nl_product &nl_p)
{
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_n_ = self->n_n_;
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 n_o_ = self->n_o_;
    const nl_i64 n_k_ = self->n_k_;
    const nl_i64 x0_by_n_ = self->x0_by_n_;
    const nl_i64 x0_by_t0_ = self->x0_by_t0_;
    const nl_i64 x1_by_o_ = self->x1_by_o_;
    const nl_i64 s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x0_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x0_by_n_;
    nl_p.of[0].side.steps[1].by = x0_by_t0_;
    nl_p.of[0].side.steps[1].extent = n_t0_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = x1_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = x1_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t0_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k8_implicit_gemm_store(const k8_row *self, nl_i64 step, const nl_sums &nl_s)
{
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const e0_p_ = nl_global(self->e0_);
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 y_by_n_ = self->y_by_n_;
    const nl_i64 y_by_t0_ = self->y_by_t0_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t0 = nl_take(rest, (nl_u32)n_t0_);
        const nl_i64 n = rest;
        const real acc = nl_s.at[nl_e];
        const real e0_ = e0_p_[o];
        real y_ = acc + e0_;
        y_p_[n * y_by_n_ + t0 * y_by_t0_ + o] = y_;
    }
}


/* ---- k9  seen.scaled: implicit gemm  (models/transformer.yaml:26:13) */

struct k9_row {
    real *y_; /* real [n][h][t][s], written */
    const real *x0_; /* real [n][h][t][e], read */
    const real *x1_; /* real [n][h][s][e], read */
    nl_i64 n_n_;
    nl_i64 n_h_;
    nl_i64 n_t_;
    nl_i64 n_s_;
    nl_i64 n_e_;
    nl_i64 y_by_n_;
    nl_i64 y_by_h_;
    nl_i64 y_by_t_;
    nl_i64 x0_by_n_;
    nl_i64 x0_by_h_;
    nl_i64 x0_by_t_;
    nl_i64 x1_by_n_;
    nl_i64 x1_by_h_;
    nl_i64 x1_by_s_;
    nl_i64 s_tile_;
    nl_i64 s_splits_;
    nl_i64 s_depth_;
    nl_i64 scratch_bytes_;
    alignas(8) real scale_;
};

NL_PART void k9_implicit_gemm_product(const k9_row *self, nl_i64 step, nl_product &nl_p)
{
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_h_ = self->n_h_;
    const nl_i64 n_t_ = self->n_t_;
    const nl_i64 n_s_ = self->n_s_;
    const nl_i64 n_e_ = self->n_e_;
    const nl_i64 x0_by_n_ = self->x0_by_n_;
    const nl_i64 x0_by_h_ = self->x0_by_h_;
    const nl_i64 x0_by_t_ = self->x0_by_t_;
    const nl_i64 x1_by_n_ = self->x1_by_n_;
    const nl_i64 x1_by_h_ = self->x1_by_h_;
    const nl_i64 x1_by_s_ = self->x1_by_s_;
    const nl_i64 s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x0_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 3;
    nl_p.of[0].side.steps[0].by = x0_by_n_;
    nl_p.of[0].side.steps[1].by = x0_by_h_;
    nl_p.of[0].side.steps[1].extent = n_h_;
    nl_p.of[0].side.steps[2].by = x0_by_t_;
    nl_p.of[0].side.steps[2].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = x1_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 3;
    nl_p.of[1].side.steps[0].by = x1_by_n_;
    nl_p.of[1].side.steps[1].by = x1_by_h_;
    nl_p.of[1].side.steps[1].extent = n_h_;
    nl_p.of[1].side.steps[2].by = x1_by_s_;
    nl_p.of[1].side.steps[2].extent = n_s_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_t_;
    nl_p.n = n_s_;
    nl_p.k = n_e_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k9_implicit_gemm_store(const k9_row *self, nl_i64 step, const nl_sums &nl_s)
{
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const nl_i64 n_h_ = self->n_h_;
    const nl_i64 y_by_n_ = self->y_by_n_;
    const nl_i64 y_by_h_ = self->y_by_h_;
    const nl_i64 y_by_t_ = self->y_by_t_;
    const real scale_ = self->scale_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    nl_u32 rest = nl_s.batch;
    const nl_i64 h = nl_take(rest, (nl_u32)n_h_);
    const nl_i64 n = rest;
    const nl_i64 s = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 t = nl_slow;
        const real acc = nl_s.at[nl_e];
        real y_ = acc * scale_;
        y_p_[n * y_by_n_ + h * y_by_h_ + t * y_by_t_ + s] = y_;
    }
}


/* ---- k10  seen.softmax.largest: maximum over d3  (models/transformer.yaml:26:13) */

struct k10_row {
    real *y_; /* real [d0], written */
    const real *x0_; /* real [d0][d3], read */
    nl_i64 n_d0_;
    nl_i64 n_d3_;
    nl_i64 x0_by_d0_;
};

NL_FN void k10_maximum_over_d3_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k10_row *const self = (const k10_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d3_ = self->n_d3_;
    const nl_i64 x0_by_d0_ = self->x0_by_d0_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(n_d0_, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end;
            e += blockDim.x >> nl_bits) {
        const nl_i64 d0 = e;
        real acc = -NL_INF_F32;
        const nl_i64 nl_terms = n_d3_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 r = nl_first;
        const auto nl_more = [&](int) {
            const nl_i64 d3 = r;
            const real x0_ = x0_p_[d0 * x0_by_d0_ + d3];
            acc = nl_max_f32(acc, x0_);
            r += nl_group;
        };
#pragma unroll 1
        while (r + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (r < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all = nl_joined<real, nl_max_f32>(
                acc, -NL_INF_F32, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.value;
        }
        if (nl_lane == 0) {
            real y_ = acc;
            y_p_[d0] = y_;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k10_maximum_over_d3(NL_ARGUMENTS) { k10_maximum_over_d3_block(NL_TASK(k10_row)); }


/* ---- k11  seen.softmax.power: elementwise  (models/transformer.yaml:26:13) */

struct k11_row {
    real *y_; /* real [d0][d3], updated */
    const real *x0_; /* real [d0], read */
    nl_i64 n_d0_;
    nl_i64 n_d3_;
    nl_i64 y_by_d0_;
};

NL_FN void k11_elementwise_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k11_row *const self = (const k11_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d3_ = self->n_d3_;
    const nl_i64 y_by_d0_ = self->y_by_d0_;
    nl_wait();
    const nl_i64 nl_end = nl_least(n_d0_ * n_d3_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + threadIdx.x; e < nl_end; e += blockDim.x) {
        nl_u64 rest = e;
        const nl_i64 d3 = nl_take(rest, n_d3_);
        const nl_i64 d0 = rest;
        real y_ = y_p_[d0 * y_by_d0_ + d3];
        const real x0_ = x0_p_[d0];
        y_ = nl_exp_f32(y_ - x0_);
        y_p_[d0 * y_by_d0_ + d3] = y_;
    }
}
extern "C" __global__ void NL_BLOCK k11_elementwise(NL_ARGUMENTS) { k11_elementwise_block(NL_TASK(k11_row)); }


/* ---- k12  seen.softmax.total: sum over d3  (models/transformer.yaml:26:13) */

struct k12_row {
    real *y_; /* real [d0], written */
    const real *x0_; /* real [d0][d3], read */
    nl_i64 n_d0_;
    nl_i64 n_d3_;
    nl_i64 x0_by_d0_;
};

NL_FN void k12_sum_over_d3_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k12_row *const self = (const k12_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d3_ = self->n_d3_;
    const nl_i64 x0_by_d0_ = self->x0_by_d0_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(n_d0_, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end;
            e += blockDim.x >> nl_bits) {
        const nl_i64 d0 = e;
        real acc = 0.0f;
        const nl_i64 nl_terms = n_d3_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 r = nl_first;
        const auto nl_more = [&](int) {
            const nl_i64 d3 = r;
            const real x0_ = x0_p_[d0 * x0_by_d0_ + d3];
            acc += x0_;
            r += nl_group;
        };
#pragma unroll 1
        while (r + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (r < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all = nl_joined<real, nl_sum_of<real>>(
                acc, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.value;
        }
        if (nl_lane == 0) {
            real y_ = acc;
            y_p_[d0] = y_;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k12_sum_over_d3(NL_ARGUMENTS) { k12_sum_over_d3_block(NL_TASK(k12_row)); }


/* ---- k13  seen.softmax.y: elementwise  (models/transformer.yaml:26:13) */

struct k13_row {
    real *y_; /* real [d0][d3], updated */
    const real *x0_; /* real [d0], read */
    nl_i64 n_d0_;
    nl_i64 n_d3_;
    nl_i64 y_by_d0_;
};

NL_FN void k13_elementwise_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k13_row *const self = (const k13_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d3_ = self->n_d3_;
    const nl_i64 y_by_d0_ = self->y_by_d0_;
    nl_wait();
    const nl_i64 nl_end = nl_least(n_d0_ * n_d3_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + threadIdx.x; e < nl_end; e += blockDim.x) {
        nl_u64 rest = e;
        const nl_i64 d3 = nl_take(rest, n_d3_);
        const nl_i64 d0 = rest;
        real y_ = y_p_[d0 * y_by_d0_ + d3];
        const real x0_ = x0_p_[d0];
        y_ = y_ / x0_;
        y_p_[d0 * y_by_d0_ + d3] = y_;
    }
}
extern "C" __global__ void NL_BLOCK k13_elementwise(NL_ARGUMENTS) { k13_elementwise_block(NL_TASK(k13_row)); }


/* ---- k14  seen.context: implicit gemm  (models/transformer.yaml:26:13) */

struct k14_row {
    real *y_; /* real [n][t][h][e], written */
    const real *x0_; /* real [n][t][h][s], read */
    const real *x1_; /* real [n][h][e][s], read */
    nl_i64 n_n_;
    nl_i64 n_t_;
    nl_i64 n_h_;
    nl_i64 n_e_;
    nl_i64 n_s_;
    nl_i64 y_by_n_;
    nl_i64 y_by_t_;
    nl_i64 y_by_h_;
    nl_i64 x0_by_n_;
    nl_i64 x0_by_t_;
    nl_i64 x0_by_h_;
    nl_i64 x1_by_n_;
    nl_i64 x1_by_h_;
    nl_i64 x1_by_s_;
    nl_i64 s_tile_;
    nl_i64 s_splits_;
    nl_i64 s_depth_;
    nl_i64 scratch_bytes_;
};

NL_PART void k14_implicit_gemm_product(const k14_row *self, nl_i64 step, nl_product &nl_p)
{
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_t_ = self->n_t_;
    const nl_i64 n_h_ = self->n_h_;
    const nl_i64 n_e_ = self->n_e_;
    const nl_i64 n_s_ = self->n_s_;
    const nl_i64 x0_by_n_ = self->x0_by_n_;
    const nl_i64 x0_by_t_ = self->x0_by_t_;
    const nl_i64 x0_by_h_ = self->x0_by_h_;
    const nl_i64 x1_by_n_ = self->x1_by_n_;
    const nl_i64 x1_by_h_ = self->x1_by_h_;
    const nl_i64 x1_by_s_ = self->x1_by_s_;
    const nl_i64 s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x0_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 3;
    nl_p.of[0].side.steps[0].by = x0_by_n_;
    nl_p.of[0].side.steps[1].by = x0_by_h_;
    nl_p.of[0].side.steps[1].extent = n_h_;
    nl_p.of[0].side.steps[2].by = x0_by_t_;
    nl_p.of[0].side.steps[2].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = x1_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = false;
    nl_p.of[1].side.count = 3;
    nl_p.of[1].side.steps[0].by = x1_by_n_;
    nl_p.of[1].side.steps[1].by = x1_by_h_;
    nl_p.of[1].side.steps[1].extent = n_h_;
    nl_p.of[1].side.steps[2].by = 1;
    nl_p.of[1].side.steps[2].extent = n_e_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = x1_by_s_;
    nl_p.m = n_t_;
    nl_p.n = n_e_;
    nl_p.k = n_s_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k14_implicit_gemm_store(const k14_row *self, nl_i64 step, const nl_sums &nl_s)
{
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const nl_i64 n_h_ = self->n_h_;
    const nl_i64 y_by_n_ = self->y_by_n_;
    const nl_i64 y_by_t_ = self->y_by_t_;
    const nl_i64 y_by_h_ = self->y_by_h_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    nl_u32 rest = nl_s.batch;
    const nl_i64 h = nl_take(rest, (nl_u32)n_h_);
    const nl_i64 n = rest;
    const nl_i64 e = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 t = nl_slow;
        const real acc = nl_s.at[nl_e];
        real y_ = acc;
        y_p_[n * y_by_n_ + t * y_by_t_ + h * y_by_h_ + e] = y_;
    }
}


/* ---- k15  mixed.y: implicit gemm  (models/transformer.yaml:26:13) */

struct k15_row {
    real *y_; /* real [n][t0][o], written */
    const real *x0_; /* real [n][t0][k], read */
    const real *x1_; /* real [o][k], read */
    const real *e0_; /* real [n][t0][o], read */
    const real *e1_; /* real [o], read */
    nl_i64 n_n_;
    nl_i64 n_t0_;
    nl_i64 n_o_;
    nl_i64 n_k_;
    nl_i64 y_by_n_;
    nl_i64 y_by_t0_;
    nl_i64 x0_by_n_;
    nl_i64 x0_by_t0_;
    nl_i64 x1_by_o_;
    nl_i64 e0_by_n_;
    nl_i64 e0_by_t0_;
    nl_i64 s_tile_;
    nl_i64 s_splits_;
    nl_i64 s_depth_;
    nl_i64 scratch_bytes_;
};

NL_PART void k15_implicit_gemm_product(const k15_row *self, nl_i64 step, nl_product &nl_p)
{
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_n_ = self->n_n_;
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 n_o_ = self->n_o_;
    const nl_i64 n_k_ = self->n_k_;
    const nl_i64 x0_by_n_ = self->x0_by_n_;
    const nl_i64 x0_by_t0_ = self->x0_by_t0_;
    const nl_i64 x1_by_o_ = self->x1_by_o_;
    const nl_i64 s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x0_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x0_by_n_;
    nl_p.of[0].side.steps[1].by = x0_by_t0_;
    nl_p.of[0].side.steps[1].extent = n_t0_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = x1_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = x1_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t0_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k15_implicit_gemm_store(const k15_row *self, nl_i64 step, const nl_sums &nl_s)
{
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const e0_p_ = nl_global(self->e0_);
    const real *__restrict__ const e1_p_ = nl_global(self->e1_);
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 y_by_n_ = self->y_by_n_;
    const nl_i64 y_by_t0_ = self->y_by_t0_;
    const nl_i64 e0_by_n_ = self->e0_by_n_;
    const nl_i64 e0_by_t0_ = self->e0_by_t0_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t0 = nl_take(rest, (nl_u32)n_t0_);
        const nl_i64 n = rest;
        const real acc = nl_s.at[nl_e];
        const real e0_ = e0_p_[n * e0_by_n_ + t0 * e0_by_t0_ + o];
        const real e1_ = e1_p_[o];
        real y_ = e0_ + (acc + e1_);
        y_p_[n * y_by_n_ + t0 * y_by_t0_ + o] = y_;
    }
}


/* ---- k16  dense.activated: implicit gemm  (models/transformer.yaml:29:13) */

struct k16_row {
    real *y_; /* real [n][t0][o], written */
    const real *x0_; /* real [n][t0][k], read */
    const real *x1_; /* real [o][k], read */
    const real *e0_; /* real [o], read */
    nl_i64 n_n_;
    nl_i64 n_t0_;
    nl_i64 n_o_;
    nl_i64 n_k_;
    nl_i64 y_by_n_;
    nl_i64 y_by_t0_;
    nl_i64 x0_by_n_;
    nl_i64 x0_by_t0_;
    nl_i64 x1_by_o_;
    nl_i64 s_tile_;
    nl_i64 s_splits_;
    nl_i64 s_depth_;
    nl_i64 scratch_bytes_;
};

NL_PART void k16_implicit_gemm_product(const k16_row *self, nl_i64 step, nl_product &nl_p)
{
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_n_ = self->n_n_;
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 n_o_ = self->n_o_;
    const nl_i64 n_k_ = self->n_k_;
    const nl_i64 x0_by_n_ = self->x0_by_n_;
    const nl_i64 x0_by_t0_ = self->x0_by_t0_;
    const nl_i64 x1_by_o_ = self->x1_by_o_;
    const nl_i64 s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x0_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x0_by_n_;
    nl_p.of[0].side.steps[1].by = x0_by_t0_;
    nl_p.of[0].side.steps[1].extent = n_t0_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = x1_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = x1_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t0_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k16_implicit_gemm_store(const k16_row *self, nl_i64 step, const nl_sums &nl_s)
{
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const e0_p_ = nl_global(self->e0_);
    const nl_i64 n_t0_ = self->n_t0_;
    const nl_i64 y_by_n_ = self->y_by_n_;
    const nl_i64 y_by_t0_ = self->y_by_t0_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t0 = nl_take(rest, (nl_u32)n_t0_);
        const nl_i64 n = rest;
        const real acc = nl_s.at[nl_e];
        const real e0_ = e0_p_[o];
        real y_ = 0.5f * (acc + e0_) * (1.0f + nl_erf_f32((acc + e0_) * 0.70710677f));
        y_p_[n * y_by_n_ + t0 * y_by_t0_ + o] = y_;
    }
}


/* ---- k17  global_avg_pool.y: sum over d2  (models/transformer.yaml:34:7) */

struct k17_row {
    real *y_; /* real [d0][d1], written */
    const real *x0_; /* real [d1], read */
    const real *x1_; /* real [d1], read */
    const real *x2_; /* real [d0][d1][d2], read */
    const real *x3_; /* real [d0][d2], read */
    const real *x4_; /* real [d0][d2], read */
    nl_i64 n_d0_;
    nl_i64 n_d1_;
    nl_i64 n_d2_;
    nl_i64 y_by_d0_;
    nl_i64 x2_by_d0_;
    nl_i64 x2_by_d2_;
    nl_i64 x3_by_d0_;
    nl_i64 x4_by_d0_;
    alignas(8) real share_;
};

NL_FN void k17_sum_over_d2_block(const nl_task &nl_t)
{
    const nl_job &nl_me = nl_t.me;
    const k17_row *const self = (const k17_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const real *__restrict__ const x2_p_ = nl_global(self->x2_);
    const real *__restrict__ const x3_p_ = nl_global(self->x3_);
    const real *__restrict__ const x4_p_ = nl_global(self->x4_);
    const nl_i64 n_d0_ = self->n_d0_;
    const nl_i64 n_d1_ = self->n_d1_;
    const nl_i64 n_d2_ = self->n_d2_;
    const nl_i64 y_by_d0_ = self->y_by_d0_;
    const nl_i64 x2_by_d0_ = self->x2_by_d0_;
    const nl_i64 x2_by_d2_ = self->x2_by_d2_;
    const nl_i64 x3_by_d0_ = self->x3_by_d0_;
    const nl_i64 x4_by_d0_ = self->x4_by_d0_;
    const real share_ = self->share_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(n_d0_ * n_d1_, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end;
            e += blockDim.x >> nl_bits) {
        nl_u64 rest = e;
        const nl_i64 d1 = nl_take(rest, n_d1_);
        const nl_i64 d0 = rest;
        real acc = 0.0f;
        const nl_i64 nl_terms = n_d2_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 r = nl_first;
        const auto nl_more = [&](int) {
            const nl_i64 d2 = r;
            const real x0_ = x0_p_[d1];
            const real x1_ = x1_p_[d1];
            const real x2_ = x2_p_[d0 * x2_by_d0_ + d1 + d2 * x2_by_d2_];
            const real x3_ = x3_p_[d0 * x3_by_d0_ + d2];
            const real x4_ = x4_p_[d0 * x4_by_d0_ + d2];
            acc += ((x2_ - x3_) * x4_ * x0_ + x1_) * share_;
            r += nl_group;
        };
#pragma unroll 1
        while (r + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (r < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all = nl_joined<real, nl_sum_of<real>>(
                acc, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.value;
        }
        if (nl_lane == 0) {
            real y_ = acc;
            y_p_[d0 * y_by_d0_ + d1] = y_;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k17_sum_over_d2(NL_ARGUMENTS) { k17_sum_over_d2_block(NL_TASK(k17_row)); }


/* ---- k18  logits.biased: matmul  (models/transformer.yaml:35:7) */

struct k18_row {
    real *y_; /* real [n][o], written */
    const real *x0_; /* real [n][k], read */
    const real *x1_; /* real [o][k], read */
    const real *e0_; /* real [o], read */
    nl_i64 n_n_;
    nl_i64 n_o_;
    nl_i64 n_k_;
    nl_i64 y_by_n_;
    nl_i64 x0_by_n_;
    nl_i64 x1_by_o_;
    nl_i64 s_tile_;
    nl_i64 s_splits_;
    nl_i64 s_depth_;
    nl_i64 scratch_bytes_;
};

NL_PART void k18_matmul_product(const k18_row *self, nl_i64 step, nl_product &nl_p)
{
    const real *__restrict__ const x0_p_ = nl_global(self->x0_);
    const real *__restrict__ const x1_p_ = nl_global(self->x1_);
    const nl_i64 n_n_ = self->n_n_;
    const nl_i64 n_o_ = self->n_o_;
    const nl_i64 n_k_ = self->n_k_;
    const nl_i64 x0_by_n_ = self->x0_by_n_;
    const nl_i64 x1_by_o_ = self->x1_by_o_;
    const nl_i64 s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x0_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = x0_by_n_;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = x1_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = x1_by_o_;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k18_matmul_store(const k18_row *self, nl_i64 step, const nl_sums &nl_s)
{
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const e0_p_ = nl_global(self->e0_);
    const nl_i64 y_by_n_ = self->y_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        const real acc = nl_s.at[nl_e];
        const real e0_ = e0_p_[o];
        real y_ = acc + e0_;
        y_p_[n * y_by_n_ + o] = y_;
    }
}


/* ---- implicit_gemm_plain_plain: k4, k8, k9, k14, k15, k16 (nl_group says which) */
extern "C" __global__ void __launch_bounds__(256, 3) implicit_gemm_plain_plain(NL_ARGUMENTS)
{
    __shared__ nl_product nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 4:
            k4_implicit_gemm_product((const k4_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 8:
            k8_implicit_gemm_product((const k8_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 9:
            k9_implicit_gemm_product((const k9_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 14:
            k14_implicit_gemm_product((const k14_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 15:
            k15_implicit_gemm_product((const k15_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 16:
            k16_implicit_gemm_product((const k16_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_sums nl_s;
    if (!nl_implicit_gemm<0, nl_reader<0>, nl_reader<0>>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 4:
        k4_implicit_gemm_store((const k4_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 8:
        k8_implicit_gemm_store((const k8_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 9:
        k9_implicit_gemm_store((const k9_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 14:
        k14_implicit_gemm_store((const k14_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 15:
        k15_implicit_gemm_store((const k15_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 16:
        k16_implicit_gemm_store((const k16_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- matmul: k18 (nl_group says which) */
extern "C" __global__ void __launch_bounds__(256, 3) matmul(NL_ARGUMENTS)
{
    __shared__ nl_product nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 18:
            k18_matmul_product((const k18_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_sums nl_s;
    if (!nl_matmul(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 18:
        k18_matmul_store((const k18_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}
