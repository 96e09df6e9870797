/* ==== kernels ==================================================================================== */
/* ---- k0  lstm_1.input.weight: initial value (uniform)  (models/lstm.yaml:15:7) */
struct k0_row {
    real *x_; /* [i], written */
    nl_i64 n_;
    nl_u64 key_;
    alignas(8) real low_, high_;
};

NL_FN void k0_initial_value_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k0_row *const self = (const k0_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_ = self->n_;
    const nl_u64 key_ = self->key_;
    const real low_ = self->low_, high_ = self->high_;
    nl_wait();
    const nl_i64 nl_end = nl_least(n_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + threadIdx.x; i < nl_end; i += blockDim.x)
        x_p_[i] = low_ + (high_ - low_) * nl_uniform_f32(key_, (nl_u64)i, (nl_u64)step, 0u);
}
extern "C" __global__ void NL_BLOCK k0_initial_value(NL_ARGUMENTS) {
    k0_initial_value_block(NL_TASK(k0_row));
}

/* ---- k1  lstm.rows: batch of data.image  (models/lstm.yaml:11:5) */
struct k1_row {
    real *y_; /* [row][t][f], written */
    const nl_i32 *order_; /* [k], read */
    const real *data_; /* [example][t][f], read */
    nl_i64 n_f_, n_t_, by_t_, by_example_, n_row_, batches_, padded_;
    alignas(8) real factor_;
};

NL_FN void k1_batch_of_data_image_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k1_row *const self = (const k1_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const nl_i32 *__restrict__ const order_p_ = nl_global(self->order_);
    const real *__restrict__ const data_p_ = nl_global(self->data_);
    const nl_i64 n_f_ = self->n_f_, n_t_ = self->n_t_, by_t_ = self->by_t_, by_example_ = self->by_example_;
    const nl_i64 n_row_ = self->n_row_, batches_ = self->batches_, padded_ = self->padded_;
    const real factor_ = self->factor_;
    const nl_i64 of_step = nl_mod_i64(step - 1, batches_);
    const nl_u32 t_inverse = nl_inverse(n_t_);
    const nl_u32 f_inverse = nl_inverse(n_f_);
    nl_wait();
    const nl_i64 nl_end = nl_least(n_row_ * n_t_ * n_f_, (nl_me.part + 1ll) * nl_t.chunk);
    struct nl_load_found {
        nl_i64 f;
        nl_i64 t;
        nl_i64 row;
        real data_;
    };
    const auto nl_load = [&](nl_i64 e) {
        nl_u64 rest = e;
        const nl_i64 f = nl_take(rest, n_f_, f_inverse);
        const nl_i64 t = nl_take(rest, n_t_, t_inverse);
        const nl_i64 row = rest;
        nl_i64 k_ = of_step * padded_ + row;
        nl_i32 example_ = nl_max_i32(order_p_[k_], 0);
        const real data_ = data_p_[example_ * by_example_ + t * n_f_ + f];
        return nl_load_found{f, t, row, data_};
    };
    const auto nl_work = [&](nl_i64 e, const nl_load_found &nl_load_of) {
        nl_i64 f = nl_load_of.f;
        nl_i64 t = nl_load_of.t;
        nl_i64 row = nl_load_of.row;
        real data_ = nl_load_of.data_;
        y_p_[row * n_f_ + t * by_t_ + f] = data_ * factor_;
    };
    nl_i64 nl_a = nl_me.part * nl_t.chunk + threadIdx.x;
#pragma unroll 1
    for (; nl_a + 3ll * blockDim.x < nl_end; nl_a += 4 * blockDim.x) {
        nl_load_found nl_load_of[4];
        nl_each<4>([&](int nl_n) { nl_load_of[nl_n] = nl_load(nl_a + nl_n * blockDim.x); });
        nl_each<4>([&](int nl_n) { nl_work(nl_a + nl_n * blockDim.x, nl_load_of[nl_n]); });
    }
#pragma unroll 1
    for (; nl_a < nl_end; nl_a += blockDim.x) nl_work(nl_a, nl_load(nl_a));
}
extern "C" __global__ void NL_BLOCK k1_batch_of_data_image(NL_ARGUMENTS) {
    k1_batch_of_data_image_block(NL_TASK(k1_row));
}

/* ---- k2  lstm.input.biased: matmul  (models/lstm.yaml:15:7) */
/* acc = sum over k of rows * input_weight; input_biased = acc + input_bias */
struct k2_row {
    real *input_biased_; /* [n][o], written */
    const real *rows_; /* [n][k], read */
    const real *input_weight_; /* [o][k], read */
    const real *input_bias_; /* [o], read */
    nl_i64 n_n_, n_o_, n_k_, input_biased_by_n_, rows_by_n_, input_weight_by_o_, s_tile_, s_splits_, s_depth_;
};

NL_PART void k2_matmul_product(const k2_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const rows_p_ = nl_global(self->rows_);
    const real *__restrict__ const input_weight_p_ = nl_global(self->input_weight_);
    const nl_i64 n_n_ = self->n_n_, n_o_ = self->n_o_, n_k_ = self->n_k_, rows_by_n_ = self->rows_by_n_;
    const nl_i64 input_weight_by_o_ = self->input_weight_by_o_, s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = rows_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = rows_by_n_;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = input_weight_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = input_weight_by_o_;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k2_matmul_store(const k2_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const input_biased_p_ = nl_global(self->input_biased_);
    const real *__restrict__ const input_bias_p_ = nl_global(self->input_bias_);
    const nl_i64 input_biased_by_n_ = self->input_biased_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        input_biased_p_[n * input_biased_by_n_ + o] = nl_s.at[nl_e] + input_bias_p_[o];
    }
}

/* ---- k3  lstm.at.h.before.start: elementwise  (models/lstm.yaml:15:7) */
struct k3_row {
    real *h_before_start_; /* [i], written */
    nl_i64 n_i_;
};

NL_FN void k3_elementwise_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k3_row *const self = (const k3_row *)nl_t.self;
    real *__restrict__ const h_before_start_p_ = nl_global(self->h_before_start_);
    const nl_i64 n_i_ = self->n_i_;
    nl_wait();
    const bool nl_every = (nl_t.chunk >= 4 * blockDim.x) & nl_is_aligned<4>(h_before_start_p_);
    const nl_i64 nl_end = nl_least(n_i_, (nl_me.part + 1ll) * nl_t.chunk);
    nl_i64 nl_from = nl_me.part * nl_t.chunk;
#pragma unroll 1
    for (bool nl_wide = nl_every; true; nl_wide = false) {
        const int nl_width = nl_wide ? 4 : 1;
        const nl_i64 nl_to = nl_end - (nl_end - nl_from) % nl_width;
#pragma unroll 1
        for (nl_i64 i = nl_from + nl_width * threadIdx.x; i < nl_to; i += nl_width * blockDim.x) {
            struct {
                nl_few<real, 4> h_before_start_p_;
            } nl_x = {{}};
            const auto nl_point = [&](int nl_n) {
                nl_x.h_before_start_p_.x[nl_n] = 0.0f;
            };
            if (!nl_wide) nl_point(0);
            else nl_each<4>(nl_point);
            nl_write(&h_before_start_p_[i], nl_x.h_before_start_p_, nl_wide);
        }
        if (nl_to == nl_end) break;
        nl_from = nl_to;
    }
}
extern "C" __global__ void __launch_bounds__(256, 3) k3_elementwise(NL_ARGUMENTS) {
    k3_elementwise_block(NL_TASK(k3_row));
}

/* ---- k4  lstm.at.input.carried: matmul  (models/lstm.yaml:15:7) */
/* input_carried = sum over k of h_before * input_recurrent */
struct k4_row {
    real *input_carried_; /* [n][o], written */
    const real *h_before_; /* [n][k], read */
    const real *input_recurrent_; /* [o][k], read */
    nl_i64 n_n_, n_o_, n_k_, input_carried_by_n_, h_before_by_n_, input_recurrent_by_o_, s_tile_, s_splits_;
    nl_i64 s_depth_;
};

NL_PART void k4_matmul_product(const k4_row *self, nl_i64 step, nl_product &nl_p) {
    const real *const h_before_p_ = nl_global(self->h_before_);
    const real *const input_recurrent_p_ = nl_global(self->input_recurrent_);
    const nl_i64 n_n_ = self->n_n_, n_o_ = self->n_o_, n_k_ = self->n_k_, h_before_by_n_ = self->h_before_by_n_;
    const nl_i64 input_recurrent_by_o_ = self->input_recurrent_by_o_, s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = h_before_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = h_before_by_n_;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = input_recurrent_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = input_recurrent_by_o_;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k4_matmul_store(const k4_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *const input_carried_p_ = nl_global(self->input_carried_);
    const nl_i64 input_carried_by_n_ = self->input_carried_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        input_carried_p_[n * input_carried_by_n_ + o] = nl_s.at[nl_e];
    }
}

/* ---- k5  lstm.at.memory: matmul  (models/lstm.yaml:15:7) */
/* acc = sum over k of h_before * cell_recurrent; memory = sigmoid(forget_carried + forget_given) * memory_before +
   sigmoid(input_carried + input_given) * tanh(acc + cell_given) */
struct k5_row {
    real *memory_; /* [n][o], written */
    const real *h_before_; /* [n][k], read */
    const real *cell_recurrent_; /* [o][k], read */
    const real *memory_before_; /* [n][o], read */
    const real *forget_carried_; /* [n][o], read */
    const real *forget_given_; /* [n][o], read */
    const real *input_carried_; /* [n][o], read */
    const real *input_given_; /* [n][o], read */
    const real *cell_given_; /* [n][o], read */
    nl_i64 n_n_, n_o_, n_k_, memory_by_n_, h_before_by_n_, cell_recurrent_by_o_, memory_before_by_n_;
    nl_i64 forget_carried_by_n_, forget_given_by_n_, input_carried_by_n_, input_given_by_n_, cell_given_by_n_;
    nl_i64 s_tile_, s_splits_, s_depth_;
};

NL_PART void k5_matmul_product(const k5_row *self, nl_i64 step, nl_product &nl_p) {
    const real *const h_before_p_ = nl_global(self->h_before_);
    const real *const cell_recurrent_p_ = nl_global(self->cell_recurrent_);
    const nl_i64 n_n_ = self->n_n_, n_o_ = self->n_o_, n_k_ = self->n_k_, h_before_by_n_ = self->h_before_by_n_;
    const nl_i64 cell_recurrent_by_o_ = self->cell_recurrent_by_o_, s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = h_before_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = h_before_by_n_;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = cell_recurrent_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = cell_recurrent_by_o_;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k5_matmul_store(const k5_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *const memory_p_ = nl_global(self->memory_);
    const real *const memory_before_p_ = nl_global(self->memory_before_);
    const real *const forget_carried_p_ = nl_global(self->forget_carried_);
    const real *const forget_given_p_ = nl_global(self->forget_given_);
    const real *const input_carried_p_ = nl_global(self->input_carried_);
    const real *const input_given_p_ = nl_global(self->input_given_);
    const real *const cell_given_p_ = nl_global(self->cell_given_);
    const nl_i64 memory_by_n_ = self->memory_by_n_, memory_before_by_n_ = self->memory_before_by_n_;
    const nl_i64 forget_carried_by_n_ = self->forget_carried_by_n_, forget_given_by_n_ = self->forget_given_by_n_;
    const nl_i64 input_carried_by_n_ = self->input_carried_by_n_, input_given_by_n_ = self->input_given_by_n_;
    const nl_i64 cell_given_by_n_ = self->cell_given_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        const real memory_before_ = memory_before_p_[n * memory_before_by_n_ + o];
        const real forget_carried_ = forget_carried_p_[n * forget_carried_by_n_ + o];
        const real forget_given_ = forget_given_p_[n * forget_given_by_n_ + o];
        const real input_carried_ = input_carried_p_[n * input_carried_by_n_ + o];
        const real input_given_ = input_given_p_[n * input_given_by_n_ + o];
        const real cell_given_ = cell_given_p_[n * cell_given_by_n_ + o];
        memory_p_[n * memory_by_n_ + o] = nl_sigmoid_f32(forget_carried_ + forget_given_) * memory_before_
            + nl_sigmoid_f32(input_carried_ + input_given_) * nl_tanh_f32(nl_s.at[nl_e] + cell_given_);
    }
}

/* ---- k6  lstm.at.h: matmul  (models/lstm.yaml:15:7) */
/* acc = sum over k of h_before * output_recurrent; h = sigmoid(acc + output_given) * tanh(memory) */
struct k6_row {
    real *h_; /* [n][o], written */
    const real *h_before_; /* [n][k], read */
    const real *output_recurrent_; /* [o][k], read */
    const real *memory_; /* [n][o], read */
    const real *output_given_; /* [n][o], read */
    nl_i64 n_n_, n_o_, n_k_, h_by_n_, h_before_by_n_, output_recurrent_by_o_, memory_by_n_, output_given_by_n_;
    nl_i64 s_tile_, s_splits_, s_depth_;
};

NL_PART void k6_matmul_product(const k6_row *self, nl_i64 step, nl_product &nl_p) {
    const real *const h_before_p_ = nl_global(self->h_before_);
    const real *const output_recurrent_p_ = nl_global(self->output_recurrent_);
    const nl_i64 n_n_ = self->n_n_, n_o_ = self->n_o_, n_k_ = self->n_k_, h_before_by_n_ = self->h_before_by_n_;
    const nl_i64 output_recurrent_by_o_ = self->output_recurrent_by_o_, s_tile_ = self->s_tile_;
    const nl_i64 s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = h_before_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = h_before_by_n_;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = output_recurrent_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = output_recurrent_by_o_;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k6_matmul_store(const k6_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *const h_p_ = nl_global(self->h_);
    const real *const memory_p_ = nl_global(self->memory_);
    const real *const output_given_p_ = nl_global(self->output_given_);
    const nl_i64 h_by_n_ = self->h_by_n_, memory_by_n_ = self->memory_by_n_;
    const nl_i64 output_given_by_n_ = self->output_given_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        const real memory_ = memory_p_[n * memory_by_n_ + o];
        const real output_given_ = output_given_p_[n * output_given_by_n_ + o];
        h_p_[n * h_by_n_ + o] = nl_sigmoid_f32(nl_s.at[nl_e] + output_given_) * nl_tanh_f32(memory_);
    }
}

/* ---- k7  lstm.directions: moved  (models/lstm.yaml:15:7) */
struct k7_row {
    real *directions_; /* [n][k], written */
    const real *last_; /* [n][k + last_from1], read */
    const real *backward_last_; /* [n][k + backward_last_from1], read */
    nl_i64 n_n_, n_k_, directions_by_n_, last_by_n_, last_from1_, last_extent1_, backward_last_by_n_;
    nl_i64 backward_last_from1_, backward_last_extent1_;
};

NL_FN void k7_moved_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k7_row *const self = (const k7_row *)nl_t.self;
    real *__restrict__ const directions_p_ = nl_global(self->directions_);
    const real *__restrict__ const last_p_ = nl_global(self->last_);
    const real *__restrict__ const backward_last_p_ = nl_global(self->backward_last_);
    const nl_i64 n_n_ = self->n_n_, n_k_ = self->n_k_, directions_by_n_ = self->directions_by_n_;
    const nl_i64 last_by_n_ = self->last_by_n_, last_from1_ = self->last_from1_;
    const nl_i64 last_extent1_ = self->last_extent1_, backward_last_by_n_ = self->backward_last_by_n_;
    const nl_i64 backward_last_from1_ = self->backward_last_from1_;
    const nl_i64 backward_last_extent1_ = self->backward_last_extent1_;
    const nl_u32 k_inverse = nl_inverse(n_k_);
    nl_wait();
    if ((nl_t.chunk >= 4 * blockDim.x) & (n_k_ % 4 == 0) & nl_is_aligned<4>(directions_p_) & (directions_by_n_ % 4 == 0)
            & nl_is_aligned<4>(last_p_) & (last_by_n_ % 4 == 0) & (last_from1_ % 4 == 0) & (last_extent1_ % 4 == 0)
            & nl_is_aligned<4>(backward_last_p_) & (backward_last_by_n_ % 4 == 0) & (backward_last_from1_ % 4 == 0)
            & (backward_last_extent1_ % 4 == 0)) {
        const nl_i64 nl_end = nl_least(n_n_ * n_k_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
        for (nl_i64 e = nl_me.part * nl_t.chunk + 4 * threadIdx.x; e < nl_end; e += 4 * blockDim.x) {
            nl_u64 rest = e;
            const nl_i64 k = nl_take(rest, n_k_, k_inverse);
            const nl_i64 n = rest;
            const bool nl_has_last_p_ = (nl_u32)((nl_i32)k + (nl_i32)last_from1_) < (nl_u32)last_extent1_;
            nl_words<real, 4> nl_last_p_;
            if (nl_has_last_p_)
                nl_last_p_ = nl_read<4>(&last_p_[n * last_by_n_ + (nl_i64)((nl_i32)k + (nl_i32)last_from1_)], true);
            const bool nl_has_backward_last_p_ =
                (nl_u32)((nl_i32)k + (nl_i32)backward_last_from1_) < (nl_u32)backward_last_extent1_;
            nl_words<real, 4> nl_backward_last_p_;
            if (nl_has_backward_last_p_)
                nl_backward_last_p_ = nl_read<4>(&backward_last_p_[n * backward_last_by_n_
                    + (nl_i64)((nl_i32)k + (nl_i32)backward_last_from1_)], true);
            struct {
                nl_few<real, 4> directions_p_;
                nl_few<real, 4> last_p_;
                nl_few<real, 4> backward_last_p_;
            } nl_x = {{}, nl_as<real>(nl_last_p_), nl_as<real>(nl_backward_last_p_)};
            const auto nl_point = [&](int nl_n) {
                const real last_ = nl_has_last_p_ ? nl_x.last_p_.x[nl_n] : 0.0f;
                const real backward_last_ = nl_has_backward_last_p_ ? nl_x.backward_last_p_.x[nl_n] : 0.0f;
                real acc_ = last_ + backward_last_;
                nl_x.directions_p_.x[nl_n] = acc_;
            };
            nl_each<4>(nl_point);
            nl_write(&directions_p_[n * directions_by_n_ + k], nl_x.directions_p_, true);
        }
    } else {
        const nl_i64 nl_end = nl_least(n_n_ * n_k_, (nl_me.part + 1ll) * nl_t.chunk);
        struct nl_load_found {
            nl_i64 k;
            nl_i64 n;
            real last_;
            real backward_last_;
        };
        const auto nl_load = [&](nl_i64 e) {
            nl_u64 rest = e;
            const nl_i64 k = nl_take(rest, n_k_, k_inverse);
            const nl_i64 n = rest;
            const real last_ = (nl_u32)((nl_i32)k + (nl_i32)last_from1_) < (nl_u32)last_extent1_
                ? last_p_[n * last_by_n_ + (nl_i64)((nl_i32)k + (nl_i32)last_from1_)] : 0.0f;
            const real backward_last_ = (nl_u32)((nl_i32)k + (nl_i32)backward_last_from1_)
                < (nl_u32)backward_last_extent1_
                ? backward_last_p_[n * backward_last_by_n_ + (nl_i64)((nl_i32)k + (nl_i32)backward_last_from1_)] : 0.0f;
            return nl_load_found{k, n, last_, backward_last_};
        };
        const auto nl_work = [&](nl_i64 e, const nl_load_found &nl_load_of) {
            nl_i64 k = nl_load_of.k;
            nl_i64 n = nl_load_of.n;
            real last_ = nl_load_of.last_;
            real backward_last_ = nl_load_of.backward_last_;
            real acc_ = last_ + backward_last_;
            directions_p_[n * directions_by_n_ + k] = acc_;
        };
        nl_i64 nl_a = nl_me.part * nl_t.chunk + threadIdx.x;
#pragma unroll 1
        for (; nl_a + 3ll * blockDim.x < nl_end; nl_a += 4 * blockDim.x) {
            nl_load_found nl_load_of[4];
            nl_each<4>([&](int nl_n) { nl_load_of[nl_n] = nl_load(nl_a + nl_n * blockDim.x); });
            nl_each<4>([&](int nl_n) { nl_work(nl_a + nl_n * blockDim.x, nl_load_of[nl_n]); });
        }
#pragma unroll 1
        for (; nl_a < nl_end; nl_a += blockDim.x) nl_work(nl_a, nl_load(nl_a));
    }
}
extern "C" __global__ void __launch_bounds__(256, 3) k7_moved(NL_ARGUMENTS) {
    k7_moved_block(NL_TASK(k7_row));
}


/* ---- matmul (nl_group says for which): k2, k4, k5, k6 */
extern "C" __global__ void __launch_bounds__(256, 3) matmul(NL_ARGUMENTS) {
    __shared__ nl_product nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 2:
            k2_matmul_product((const k2_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 4:
            k4_matmul_product((const k4_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 5:
            k5_matmul_product((const k5_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 6:
            k6_matmul_product((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_sums nl_s;
    if (!nl_matmul(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 2:
        k2_matmul_store((const k2_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 4:
        k4_matmul_store((const k4_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 5:
        k5_matmul_store((const k5_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 6:
        k6_matmul_store((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ==== chains ===================================================================================== */

#define NL_UNIT (16 / (int)sizeof(real)) /* reals that are read at once */

struct __align__(16) nl_unit {
    real x[NL_UNIT];
};

/* Of the records of a chain's stages, `line` bytes apart, the last `many` of those before number `end` come `times`
   times. A cursor is at one of them in some turn. */
struct nl_turns {
    nl_i32 end, many, times, line;
};
struct nl_cursor {
    const char *at;
    nl_i32 number, turn;
};

/* What a stage reads: `bytes` of each sample. */
struct __align__(16) nl_link_read {
    const char *from;
    nl_i64 bytes;
};

/* Where a result goes beside its array: to `slot` (less than 0: nowhere), `pitch` reals apart for each sample. */
struct __align__(8) nl_feed_to {
    nl_i32 slot, pitch;
};

/* The points of a stage that are at hand: outputs from `out` on, 2^bits side by side, of samples from `first` on, of
   which the block has `before` more; `size` of them. */
struct nl_points {
    const real *sums;
    real *values;
    const nl_feed_to *feeds;
    nl_i64 first, outs;
    int before, out, bits, split, wide, size;
};

/* The sum of a product at a point: its parts are joined in a fixed order. */
NL_FN real nl_sum_of(const nl_points &t, int product, int e) {
    const real *const at = t.sums + (((product << t.split) * t.wide) << t.bits) + e;
    real sum = *at;
#pragma unroll 4
    for (int g = 1; g < 1 << t.split; g++) sum += at[(g * t.wide) << t.bits];
    return sum;
}

NL_FN void nl_feed(const nl_points &t, int place, int own, int out, real value) {
    const nl_feed_to to = t.feeds[place];
    if (to.slot >= 0) t.values[to.slot + (t.before + own) * to.pitch + out] = value;
}

/* lstm.at.input.carried, lstm.at.input.carried, lstm.at.memory, lstm.at.h */
template <class T>
NL_FN void nl_stage_0(const char *nl_rows, nl_i64 step, const T &nl_t) {
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_t.size; nl_e += 256) {
        const int nl_own = nl_e >> nl_t.bits, nl_out = nl_t.out + (nl_e & ((1 << nl_t.bits) - 1));
        if (nl_out >= nl_t.outs) continue;
        const nl_i64 nl_sample = nl_t.first + nl_own;
        real nl_y0;
        { /* lstm.at.input.carried: matmul */
            const real acc = nl_sum_of(nl_t, 0, nl_e);
            real input_carried_ = acc;
            nl_y0 = input_carried_;
        }
        real nl_y1;
        { /* lstm.at.input.carried: matmul */
            const real acc = nl_sum_of(nl_t, 1, nl_e);
            real input_carried_ = acc;
            nl_y1 = input_carried_;
        }
        real nl_y2;
        real *nl_at2;
        { /* lstm.at.memory: matmul */
            const k5_row *const self = (const k5_row *)(nl_rows + 192);
            real *const memory_p_ = nl_global(self->memory_);
            const real *const memory_before_p_ = nl_global(self->memory_before_);
            const real *const forget_given_p_ = nl_global(self->forget_given_);
            const real *const input_given_p_ = nl_global(self->input_given_);
            const real *const cell_given_p_ = nl_global(self->cell_given_);
            const nl_i64 memory_by_n_ = self->memory_by_n_, memory_before_by_n_ = self->memory_before_by_n_;
            const nl_i64 forget_given_by_n_ = self->forget_given_by_n_, input_given_by_n_ = self->input_given_by_n_;
            const nl_i64 cell_given_by_n_ = self->cell_given_by_n_;
            const nl_i64 n = nl_sample;
            const nl_i64 o = nl_out;
            const real acc = nl_sum_of(nl_t, 2, nl_e);
            const real memory_before_ = memory_before_p_[n * memory_before_by_n_ + o];
            const real forget_given_ = forget_given_p_[n * forget_given_by_n_ + o];
            const real input_given_ = input_given_p_[n * input_given_by_n_ + o];
            const real cell_given_ = cell_given_p_[n * cell_given_by_n_ + o];
            real memory_ = nl_sigmoid_f32(nl_y1 + forget_given_) * memory_before_
                + nl_sigmoid_f32(nl_y0 + input_given_) * nl_tanh_f32(acc + cell_given_);
            nl_y2 = memory_;
            nl_at2 = &memory_p_[n * memory_by_n_ + o];
        }
        real nl_y3;
        real *nl_at3;
        { /* lstm.at.h: matmul */
            const k6_row *const self = (const k6_row *)(nl_rows + 384);
            real *const h_p_ = nl_global(self->h_);
            const real *const output_given_p_ = nl_global(self->output_given_);
            const nl_i64 h_by_n_ = self->h_by_n_, output_given_by_n_ = self->output_given_by_n_;
            const nl_i64 n = nl_sample;
            const nl_i64 o = nl_out;
            const real acc = nl_sum_of(nl_t, 3, nl_e);
            const real output_given_ = output_given_p_[n * output_given_by_n_ + o];
            real h_ = nl_sigmoid_f32(acc + output_given_) * nl_tanh_f32(nl_y2);
            nl_y3 = h_;
            nl_at3 = &h_p_[n * h_by_n_ + o];
        }
        *nl_at2 = nl_y2;
        *nl_at3 = nl_y3;
        nl_feed(nl_t, 0, nl_own, nl_out, nl_y3);
    }
}


NL_FN void nl_fetch_unit(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((nl_u32)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
#else
    *(nl_unit *)to = *(const nl_unit *)from;
#endif
}

/* Fetches the record of a stage: by a warp. */
NL_FN void nl_fetch_record(char *to, const nl_cursor &from, int bytes) {
#pragma unroll 1
    for (int b = 16 * (threadIdx.x % 32); b < bytes; b += 16 * 32) nl_fetch_unit(to + b, from.at + b);
}

NL_FN void nl_next_record(nl_cursor &at, const nl_turns &c) {
    at.at += c.line;
    if (++at.number != c.end || at.turn + 1 == c.times) return;
    at.at -= (nl_i64)c.many * c.line;
    at.number -= c.many;
    at.turn++;
}

/* Moves the words of a record that has arrived, by the warp that has fetched it. A record begins with how many these
   are; `moves`, which stand behind it in memory, are for each of them how much further on it is in each turn (times
   2^16), and which word. */
NL_FN void nl_move(char *record, nl_i32 turn, const nl_i64 *moves) {
    const int many = *(const nl_i32 *)record;
#pragma unroll 1
    for (int m = threadIdx.x % 32; m < many; m += 32)
        ((nl_i64 *)record)[moves[m] & ((1 << 16) - 1)] += turn * (moves[m] >> 16);
    __syncwarp();
}

/* Waits for the copies of the threads of this warp. */
NL_FN void nl_arrived_here() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncwarp();
}

#define NL_TILE 4 /* samples that are summed at once */
#define NL_MINE 16 /* units of a matrix that a thread keeps in registers */

/* A matrix that stays in shared memory. In memory its rows are `by_row` reals apart; here it begins at `at`, its rows
   are `pitch` reals apart, and what fills them, and their number, up to whole units is zero. Of blocks of a cluster
   each has so many of its rows, or of its columns (0: all), `by_block` reals behind those of the one before. */
struct __align__(16) nl_matrix {
    const real *from;
    nl_i64 by_row;
    nl_i32 rows, columns, at, pitch;
    nl_i64 by_block;
    nl_i32 rows_each, columns_each;
};

/* A stage of a chain: links that are made one after the other at each point. The rows of the links follow, then what
   they read of a sample, the factors of its products, and where results go that the next stage multiplies. `moves`: see
   nl_move; `shape`: which one it has.
     outs       outputs of the products; elements of a sample, where it has none
     bits, split, beside   2^bits outputs are summed side by side, four of them by four threads, 2^split of these each,
                           2^beside products at a time
     products, fresh       products, and how many have values that have to be brought
     mine       whether threads have in registers what they multiply: as in all stages where this is so
     rows, reads           bytes of the rows, and how many nl_link_read follow them
     fed        results that the products of the next stage multiply */
struct __align__(16) nl_stage {
    nl_i32 moves, shape, outs, bits, split, beside, products, fresh, mine, rows, reads, fed;
};

/* What a product multiplies: a matrix that stands at `at`, with elements by_out and by_term apart, and `terms` values
   of a sample, in memory by_sample apart, here at `slot` and `pitch` apart. They are brought there, if they are
   `fresh`. */
struct __align__(16) nl_factor {
    const real *values;
    nl_i64 by_sample;
    nl_i32 at, by_out, by_term, slot, fresh, terms, pitch, unused;
};

/* A chain; its matrices and the records of its stages (`record` bytes each) follow. `values`, `sums`: where they stand
   in shared memory, in reals; `turn`: between the two places of sums; `records`: in bytes; `mine`: the first stage for
   which threads have something in registers. Of blocks of a cluster each has 2^part outputs of all stages. */
struct __align__(16) nl_chain {
    nl_i64 samples;
    nl_i32 matrices, stages, record, values, sums, turn, records, mine;
    nl_turns turns;
    nl_i32 part, unused;
};

/* Fetches a matrix: a warp for each row. */
NL_FN void nl_keep(real *kept, const nl_matrix &m) {
    const int lane = threadIdx.x % 32, rows = (m.rows + NL_UNIT - 1) / NL_UNIT * NL_UNIT;
    const bool whole = (m.columns | m.by_row) % NL_UNIT == 0 && (nl_u64)m.from % 16 == 0;
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows; row += (256 + 32) / 32) {
        real *const to = kept + m.at + (nl_i64)row * m.pitch;
        const real *const from = m.from + row * m.by_row;
        if (whole && row < m.rows) {
#pragma unroll 4
            for (int k = NL_UNIT * lane; k < m.columns; k += NL_UNIT * 32) nl_fetch_unit(to + k, from + k);
#pragma unroll 1
            for (int k = m.columns + lane; k < m.pitch; k += 32) to[k] = 0;
        } else {
#pragma unroll 4
            for (int k = lane; k < m.pitch; k += 32) {
                const bool inside = row < m.rows && k < m.columns;
                nl_fetch(to + k, inside ? from + k : m.from, inside);
            }
        }
    }
}

/* Has what a stage will read brought to this processor while another one runs: without, it would wait for it; 8 threads
   for each array. Nobody looks at what arrives in `spare`. What is written meanwhile is written there too. */
NL_FN void nl_expect(const char *record, nl_i64 first, int samples, char *spare) {
#if __CUDA_ARCH__ >= 800
    const nl_stage &l = *(const nl_stage *)record;
    const nl_link_read *const reads = (const nl_link_read *)(record + sizeof(nl_stage) + l.rows);
    const int lane = threadIdx.x % 32;
    int at = 0;
#pragma unroll 1
    for (int r = lane / 8; r < l.reads; r += 32 / 8) {
        const nl_link_read x = reads[r];
        const char *const from = x.from + first * x.bytes;
#pragma unroll 1
        for (int b = 32 * (lane % 8); b < samples * (int)x.bytes; b += 32 * 8, at++) {
            if (at == 16) {
                asm volatile("cp.async.wait_all;" ::: "memory");
                at = 0;
            }
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                             (nl_u32)__cvta_generic_to_shared(spare + 4 * (at * 32 + lane))),
                         "l"(from + b)
                         : "memory");
        }
    }
#endif
}

/* The values that products multiply, of this block's samples, in whole units. */
NL_FN void nl_bring(real *values, const nl_factor &f, nl_i64 first, int samples) {
    const real *from = nl_global(f.values) + first * f.by_sample;
    values += f.slot;
#pragma unroll 1
    for (int s = 0; s < samples; s++, from += f.by_sample, values += f.pitch)
#pragma unroll 1
        for (int k = threadIdx.x; k < f.pitch; k += 256) values[k] = k < f.terms ? from[k] : (real)0;
}

/* What a thread sums in a stage: four threads of a warp, `quarter` 0 to 3, sum the same four outputs of a product, each
   every fourth unit of the terms that the four have; these read 16 bytes of a line at once, and other such four read
   other banks. Of 2^bits outputs side by side they have `side` and three more, and 2^split of them divide the terms. */
struct nl_seat {
    int quarter, side, product, unit, sides;

    __device__ __forceinline__ nl_seat(const nl_stage &l) {
        const int four = threadIdx.x % 8 + threadIdx.x / 32 * 8, rest = four >> (l.bits - 2);
        sides = 1 << (l.bits - 2);
        quarter = threadIdx.x / 8 % 4;
        side = four & (sides - 1);
        product = rest & ((1 << l.beside) - 1);
        unit = rest >> l.beside;
    }
    /* Output `r` of the four, where neighbouring outputs have lines of their own, or are neighbours in each line. */
    __device__ __forceinline__ int out(int r, bool lines) const { return lines ? side + r * sides : 4 * side + r; }
};

/* Stores the sums of S samples at `to`, if they are this thread's, after four threads have joined the parts that they
   have of four outputs: each keeps the one of its quarter. All threads of a warp come here. */
template <int S>
NL_FN void nl_put_parts(real (&part)[S][4], int quarter, real *to, int pitch, bool own) {
    const bool high = quarter & 2, odd = quarter & 1;
    NL_UNROLL for (int s = 0; s < S; s++) {
        real kept[2];
        NL_UNROLL for (int i = 0; i < 2; i++) {
            const real other = high ? part[s][i] : part[s][i + 2];
            kept[i] = (high ? part[s][i + 2] : part[s][i]) + __shfl_xor_sync(0xffffffffu, other, 16);
        }
        const real sum = (odd ? kept[1] : kept[0]) + __shfl_xor_sync(0xffffffffu, odd ? kept[0] : kept[1], 8);
        if (own) to[s * pitch] = sum;
    }
}

/* This thread's part of four outputs of S samples, of a matrix that has a line for each output (LINES) or for each
   term. */
template <int S, bool LINES>
NL_FN void nl_part_of(const nl_stage &l, const nl_seat &seat, const nl_factor &f, const real *kept, const real *values,
                      int out, real (&acc)[S][4]) {
    const real *const matrix = kept + f.at;
    int line[4];
    NL_UNROLL for (int r = 0; r < 4; r++) line[r] = min(out + seat.out(r, LINES), l.outs - 1) * f.by_out;
#pragma unroll 1
    for (int u = 4 * seat.unit + seat.quarter; u < f.pitch / NL_UNIT; u += 4 << l.split) {
        real w[NL_UNIT][4];
        if (LINES) {
            NL_UNROLL for (int r = 0; r < 4; r++) {
                const nl_unit x = *(const nl_unit *)(matrix + line[r] + u * NL_UNIT);
                NL_UNROLL for (int i = 0; i < NL_UNIT; i++) w[i][r] = x.x[i];
            }
        } else {
            NL_UNROLL for (int i = 0; i < NL_UNIT; i++) {
                NL_UNROLL for (int r = 0; r < 4; r += NL_UNIT) {
                    const nl_unit x =
                        *(const nl_unit *)(matrix + (u * NL_UNIT + i) * f.by_term + out + 4 * seat.side + r);
                    NL_UNROLL for (int k = 0; k < NL_UNIT; k++) w[i][r + k] = x.x[k];
                }
            }
        }
        NL_UNROLL for (int s = 0; s < S; s++) {
            const nl_unit y = *(const nl_unit *)(values + s * f.pitch + u * NL_UNIT);
            NL_UNROLL for (int i = 0; i < NL_UNIT; i++) {
                NL_UNROLL for (int r = 0; r < 4; r++) acc[s][r] += w[i][r] * y.x[i];
            }
        }
    }
}

/* The parts of the sums of 2^bits outputs from `out` on of S samples from `sample` on, of all products of a stage. */
template <int S>
NL_FN void nl_stage_sums(const nl_stage &l, const nl_factor *factors, const real *kept, const real *values, int sample,
                         int out, real *sums) {
    const nl_seat seat(l);
#pragma unroll 1
    for (int first = 0; first < l.products; first += 1 << l.beside) {
        const int p = first + seat.product;
        bool own = p < l.products && seat.unit >> l.split == 0;
        const nl_factor f = factors[own ? p : 0];
        const bool lines = f.by_term == 1;
        real acc[S][4] = {};
        if (own && out + seat.out(0, lines) < l.outs) {
            const real *const x = values + f.slot + sample * f.pitch;
            if (lines)
                nl_part_of<S, true>(l, seat, f, kept, x, out, acc);
            else
                nl_part_of<S, false>(l, seat, f, kept, x, out, acc);
        }
        const int mine = seat.out(seat.quarter, lines);
        own = own && out + mine < l.outs;
        real *const at = sums + (((p << l.split) + seat.unit) * S << l.bits) + mine;
        nl_put_parts<S>(acc, seat.quarter, at, 1 << l.bits, own);
    }
}

/* What a thread does in all stages for which it has its units of a matrix in registers, those of four outputs: `many`
   times, `step` units apart from unit `first` on, of which `last` is the last one. Behind it there is nothing to add:
   the matrix is 0 there. `at`: where its sums go, by parts of products; `out`: the output that it keeps, if it is its
   `own`. */
struct nl_mine {
    nl_unit units[NL_MINE / 4][4];
    int product, pitch, first, step, last, many, quarter, at, out;
    bool own;
};

NL_FN void nl_take_mine(const nl_stage &l, const nl_factor *factors, const real *kept, nl_mine &mine) {
    const nl_seat seat(l);
    const bool own = seat.product < l.products && seat.unit >> l.split == 0;
    mine.product = own ? seat.product : 0;
    const nl_factor f = factors[mine.product];
    mine.quarter = seat.quarter;
    mine.at = (seat.product << l.split) + seat.unit;
    mine.out = seat.out(seat.quarter, true);
    mine.own = own && mine.out < l.outs;
    mine.pitch = f.pitch;
    mine.first = 4 * seat.unit + seat.quarter;
    mine.step = 4 << l.split;
    mine.last = f.pitch / NL_UNIT - 1;
    mine.many = (f.pitch / NL_UNIT + mine.step - 1) / mine.step;
    NL_UNROLL for (int j = 0; j < NL_MINE / 4; j++) {
        const int u = mine.first + j * mine.step;
        NL_UNROLL for (int r = 0; r < 4; r++) {
            const real *const matrix = kept + f.at + min(seat.out(r, true), l.outs - 1) * f.by_out;
            NL_UNROLL for (int i = 0; i < NL_UNIT; i++)
                mine.units[j][r].x[i] = own && u <= mine.last ? matrix[(u * NL_UNIT + i) * f.by_term] : (real)0;
        }
    }
}

/* The same sums as by nl_stage_sums with what threads have in registers. */
template <int S>
NL_FN void nl_my_sums(const nl_stage &l, const nl_factor *factors, const nl_mine &mine, const real *values, int sample,
                      real *sums) {
    constexpr int ONCE = S == 1 ? 4 : 2; /* units that are read at once */
    const real *const x = values + factors[mine.product].slot + sample * mine.pitch;
    real acc[S][4] = {};
    NL_UNROLL for (int j = 0; j < NL_MINE / 4; j += ONCE) {
        if (j >= mine.many) break;
        nl_unit y[ONCE][S];
        NL_UNROLL for (int k = 0; k < ONCE; k++) {
            const real *const from = x + min(mine.first + (j + k) * mine.step, mine.last) * NL_UNIT;
            NL_UNROLL for (int s = 0; s < S; s++) y[k][s] = *(const nl_unit *)(from + s * mine.pitch);
        }
        NL_UNROLL for (int k = 0; k < ONCE; k++) {
            NL_UNROLL for (int s = 0; s < S; s++) {
                NL_UNROLL for (int i = 0; i < NL_UNIT; i++) {
                    NL_UNROLL for (int r = 0; r < 4; r++) acc[s][r] += mine.units[j + k][r].x[i] * y[k][s].x[i];
                }
            }
        }
    }
    nl_put_parts<S>(acc, mine.quarter, sums + (mine.at * S << l.bits) + mine.out, 1 << l.bits, mine.own);
}

/* The parts of the sums of S samples of a stage. */
template <int S>
NL_FN void nl_sums_of(const nl_stage &l, const nl_factor *factors, const nl_mine &mine, const real *kept,
                      const real *values, int sample, int out, real *sums) {
    if (l.mine)
        nl_my_sums<S>(l, factors, mine, values, sample, sums);
    else
        nl_stage_sums<S>(l, factors, kept, values, sample, out, sums);
}

/* Takes nl_chunk samples through all stages of the chain at nl_rows: what one stage has written, the next ones may read
   after a barrier. 256 threads sum, the others have what comes next fetched meanwhile: the record of the stage
   after the next one, and what the next one reads; they wait for the copies of a stage in the next one, while the
   others go through their links. Products of a stage are summed together, and then each thread goes through all links
   of its points. Records have three places: that of this stage, of the next one, and of the one before, which the one
   after the next takes; sums two in turn, so that a barrier for each tile is enough. */
extern "C" __global__ void __launch_bounds__(288) nl_chained(NL_ARGUMENTS) {
    extern __shared__ __align__(16) char nl_chip[];
    const nl_chain c = *nl_global((const nl_chain *)nl_rows);
    const nl_matrix *const matrices = (const nl_matrix *)((const nl_chain *)nl_rows + 1);
    nl_cursor next = {(const char *)(matrices + c.matrices), 0, 0};
    real *const kept = (real *)nl_chip, *const values = kept + c.values;
    char *const spare = nl_chip + c.records, *const records = spare + 4 * 512;
    const nl_i64 step = *nl_run.step + nl_ahead, first = blockIdx.x * nl_chunk;
    const int samples = (int)nl_least(nl_chunk, c.samples - first);
    if (threadIdx.x >= 256) {
        nl_fetch_record(records, next, c.record);
        if (c.stages > 1) {
            nl_next_record(next, c.turns);
            nl_fetch_record(records + c.record, next, c.record);
        }
    }
    nl_wait();
#pragma unroll 1
    for (int m = 0; m < c.matrices; m++) nl_keep(kept, matrices[m]);
    int turn = 0, here = 0;
    nl_mine mine;
    nl_arrived();
#pragma unroll 1
    for (int n = 0; n < c.stages; n++, __syncthreads()) {
        const int before = here == 0 ? 2 * c.record : here - c.record;
        const char *const record = records + here, *const rows = record + sizeof(nl_stage);
        here = here == 2 * c.record ? 0 : here + c.record;
        const nl_stage l = *(const nl_stage *)record;
        if (threadIdx.x >= 256) {
            if (l.fresh) __syncthreads();
            for (int s = 0; s < samples; s += NL_TILE)
                for (int out = 0; out < l.outs; out += 1 << l.bits) {
                    __syncthreads();
                    if (s + out > 0) continue;
                    nl_arrived_here();
                    if (n + 1 == c.stages) continue;
                    nl_move(records + here, next.turn, nl_global((const nl_i64 *)(next.at + c.record)));
                    if (n + 2 < c.stages) {
                        nl_next_record(next, c.turns);
                        nl_fetch_record(records + before, next, c.record);
                    }
                    nl_expect(records + here, first, samples, spare);
                }
            continue;
        }
        const nl_factor *const factors = (const nl_factor *)(rows + l.rows + l.reads * sizeof(nl_link_read));
        if (l.fresh) {
#pragma unroll 1
            for (int p = 0; p < l.products; p++)
                if (factors[p].fresh) nl_bring(values, factors[p], first, samples);
            __syncthreads();
        }
        if (n == c.mine) nl_take_mine(l, factors, kept, mine);
        nl_points t;
        t.values = values;
        t.feeds = (const nl_feed_to *)(factors + l.products);
        t.outs = l.outs;
        t.bits = l.bits;
        t.split = l.split;
#pragma unroll 1
        for (int s = 0; s < samples; s += NL_TILE) {
            t.first = first + s;
            t.before = s;
            t.wide = min(samples - s, NL_TILE);
            t.size = t.wide << l.bits;
#pragma unroll 1
            for (int out = 0; out < l.outs; out += 1 << l.bits) {
                real *const sums = kept + c.sums + turn;
                turn = c.turn - turn;
                switch (t.wide) {
                case 1: nl_sums_of<1>(l, factors, mine, kept, values, s, out, sums); break;
                case 2: nl_sums_of<2>(l, factors, mine, kept, values, s, out, sums); break;
                case 3: nl_sums_of<3>(l, factors, mine, kept, values, s, out, sums); break;
                default: nl_sums_of<NL_TILE>(l, factors, mine, kept, values, s, out, sums);
                }
                __syncthreads();
                t.sums = sums;
                t.out = out;
                switch (l.shape) {
                case 0: nl_stage_0(rows, step, t); break;
                }
            }
        }
    }
}

