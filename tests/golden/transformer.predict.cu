/* ==== kernels ==================================================================================== */
/* ---- k0  dense_1.weight: initial value (uniform)  (models/transformer.yaml:19:7) */
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

/* ---- k1  positions_1.weight: initial value (normal)  (models/transformer.yaml:20:7) */
struct k1_row {
    real *x_; /* [i], written */
    nl_i64 n_;
    nl_u64 key_;
    alignas(8) real mean_, std_;
};

NL_FN void k1_initial_value_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k1_row *const self = (const k1_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_ = self->n_;
    const nl_u64 key_ = self->key_;
    const real mean_ = self->mean_, std_ = self->std_;
    nl_wait();
    const nl_i64 nl_end = nl_least(n_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + threadIdx.x; i < nl_end; i += blockDim.x)
        x_p_[i] = mean_ + std_ * nl_normal_f32(key_, (nl_u64)i, (nl_u64)step, 0u);
}
extern "C" __global__ void NL_BLOCK k1_initial_value(NL_ARGUMENTS) {
    k1_initial_value_block(NL_TASK(k1_row));
}

/* ---- k2  layer_norm_1.weight: initial value (constant)  (models/transformer.yaml:25:13) */
struct k2_row {
    real *x_; /* [i], written */
    nl_i64 n_;
    alignas(8) real value_;
};

NL_FN void k2_initial_value_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k2_row *const self = (const k2_row *)nl_t.self;
    real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_ = self->n_;
    const real value_ = self->value_;
    nl_wait();
    const bool nl_every = (nl_t.chunk >= 4 * blockDim.x) & nl_is_aligned<4>(x_p_);
    const nl_i64 nl_end = nl_least(n_, (nl_me.part + 1ll) * nl_t.chunk);
    nl_i64 nl_from = nl_me.part * nl_t.chunk;
#pragma unroll 1
    for (bool nl_wide = nl_every; true; nl_wide = false) {
        const int nl_width = nl_wide ? 4 : 1;
        const nl_i64 nl_to = nl_end - (nl_end - nl_from) % nl_width;
#pragma unroll 1
        for (nl_i64 i = nl_from + nl_width * threadIdx.x; i < nl_to; i += nl_width * blockDim.x) {
            struct {
                nl_few<real, 4> x_p_;
            } nl_x = {{}};
            const auto nl_point = [&](int nl_n) {
                nl_x.x_p_.x[nl_n] = value_;
            };
            if (!nl_wide) nl_point(0);
            else nl_each<4>(nl_point);
            nl_write(&x_p_[i], nl_x.x_p_, nl_wide);
        }
        if (nl_to == nl_end) break;
        nl_from = nl_to;
    }
}
extern "C" __global__ void __launch_bounds__(256, 3) k2_initial_value(NL_ARGUMENTS) {
    k2_initial_value_block(NL_TASK(k2_row));
}

/* ---- k3  image: batch of data.image  (models/transformer.yaml:15:5) */
struct k3_row {
    real *y_; /* [row][f], written */
    const nl_i32 *order_; /* [k], read */
    const real *data_; /* [example][f], read */
    nl_i64 n_f_, n_row_, batches_, padded_;
    alignas(8) real factor_;
};

NL_FN void k3_batch_of_data_image_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k3_row *const self = (const k3_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const nl_i32 *__restrict__ const order_p_ = nl_global(self->order_);
    const real *__restrict__ const data_p_ = nl_global(self->data_);
    const nl_i64 n_f_ = self->n_f_, n_row_ = self->n_row_, batches_ = self->batches_, padded_ = self->padded_;
    const real factor_ = self->factor_;
    const nl_i64 of_step = nl_mod_i64(step - 1, batches_);
    const nl_u32 f_inverse = nl_inverse(n_f_);
    nl_wait();
    const nl_i64 nl_end = nl_least(n_row_ * n_f_, (nl_me.part + 1ll) * nl_t.chunk);
    struct nl_load_found {
        nl_i64 f;
        nl_i64 row;
        real data_;
    };
    const auto nl_load = [&](nl_i64 e) {
        nl_u64 rest = e;
        const nl_i64 f = nl_take(rest, n_f_, f_inverse);
        const nl_i64 row = rest;
        nl_i64 k_ = of_step * padded_ + row;
        nl_i32 example_ = nl_max_i32(order_p_[k_], 0);
        const real data_ = data_p_[example_ * n_f_ + f];
        return nl_load_found{f, row, data_};
    };
    const auto nl_work = [&](nl_i64 e, const nl_load_found &nl_load_of) {
        nl_i64 f = nl_load_of.f;
        nl_i64 row = nl_load_of.row;
        real data_ = nl_load_of.data_;
        y_p_[row * n_f_ + f] = data_ * factor_;
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
extern "C" __global__ void NL_BLOCK k3_batch_of_data_image(NL_ARGUMENTS) {
    k3_batch_of_data_image_block(NL_TASK(k3_row));
}

/* ---- k4  positions.y: implicit gemm  (models/transformer.yaml:19:7) */
/* acc = sum over k of x * weight; y = acc + bias + weight */
struct k4_row {
    real *y_; /* [n][t][o], written */
    const real *x_; /* [n][t][k], read */
    const real *weight_; /* [o][k], read */
    const real *weight_2_; /* [t][o], read */
    const real *bias_; /* [o], read */
    nl_i64 n_n_, n_t_, n_o_, n_k_, y_by_n_, y_by_t_, x_by_n_, x_by_t_, weight_by_o_, weight_by_t_, s_tile_;
    nl_i64 s_splits_, s_depth_;
};

NL_PART void k4_implicit_gemm_product(const k4_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const nl_i64 n_n_ = self->n_n_, n_t_ = self->n_t_, n_o_ = self->n_o_, n_k_ = self->n_k_;
    const nl_i64 x_by_n_ = self->x_by_n_, x_by_t_ = self->x_by_t_, weight_by_o_ = self->weight_by_o_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = x_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x_by_n_;
    nl_p.of[0].side.steps[1].by = x_by_t_;
    nl_p.of[0].side.steps[1].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = weight_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = weight_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k4_implicit_gemm_store(const k4_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const weight_p_2_ = nl_global(self->weight_2_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const nl_i64 n_t_ = self->n_t_, y_by_n_ = self->y_by_n_, y_by_t_ = self->y_by_t_;
    const nl_i64 weight_by_t_ = self->weight_by_t_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t = nl_take(rest, (nl_u32)n_t_);
        const nl_i64 n = rest;
        y_p_[n * y_by_n_ + t * y_by_t_ + o] = nl_s.at[nl_e] + bias_p_[o] + weight_p_2_[t * weight_by_t_ + o];
    }
}

/* ---- k5  layer_norm.scaled: rows over k  (models/transformer.yaml:25:13) */
struct k5_row {
    real *scaled_; /* [i][k], written */
    const real *x_; /* [i][k], read */
    const real *weight_; /* [k], read */
    const real *bias_; /* [k], read */
    nl_i64 n_i_, n_k_, scaled_by_i_, x_by_i_;
    alignas(8) real share_, epsilon_;
};

NL_FN void k5_rows_over_k_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k5_row *const self = (const k5_row *)nl_t.self;
    real *__restrict__ const scaled_p_ = nl_global(self->scaled_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const nl_i64 n_i_ = self->n_i_, n_k_ = self->n_k_, scaled_by_i_ = self->scaled_by_i_, x_by_i_ = self->x_by_i_;
    const real share_ = self->share_, epsilon_ = self->epsilon_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_first = threadIdx.x & ((1u << nl_bits) - 1);
    const bool nl_wide = (n_k_ % 4 == 0) & (n_k_ >= 4 * nl_group) & nl_is_aligned<4>(x_p_) & (x_by_i_ % 4 == 0)
        & nl_is_aligned<4>(scaled_p_) & (scaled_by_i_ % 4 == 0) & nl_is_aligned<4>(weight_p_)
        & nl_is_aligned<4>(bias_p_);
    const nl_i64 nl_end = nl_least(n_i_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + (threadIdx.x >> nl_bits); i < nl_end; i += blockDim.x >> nl_bits) {
        const nl_i64 nl_terms = n_k_;
        real acc = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 k = 4 * nl_first; k < nl_terms; k += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[i * x_by_i_ + k], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        acc += x_ * share_;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 k = nl_first;
                const auto nl_more = [&](int) {
                    acc += x_p_[i * x_by_i_ + k] * share_;
                    k += nl_group;
                };
#pragma unroll 1
                while (k + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
                while (k + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
                while (k < nl_terms) nl_more(0);
            }
            if (nl_are_many(nl_group)) {
                const auto nl_found =
                    nl_joined<real, 1, nl_sum_of<real>>({{acc}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                acc = nl_all.of[0];
            }
        }
        if (nl_first == 0) {
        }
        real acc1 = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 k = 4 * nl_first; k < nl_terms; k += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[i * x_by_i_ + k], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        acc1 += (x_ - acc) * (x_ - acc) * share_;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 k = nl_first;
                const auto nl_more = [&](int) {
                    const real x_ = x_p_[i * x_by_i_ + k];
                    acc1 += (x_ - acc) * (x_ - acc) * share_;
                    k += nl_group;
                };
#pragma unroll 1
                while (k + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
                while (k + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
                while (k < nl_terms) nl_more(0);
            }
            if (nl_are_many(nl_group)) {
                const auto nl_found =
                    nl_joined<real, 1, nl_sum_of<real>>({{acc1}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                acc1 = nl_all.of[0];
            }
        }
        real v0_ = 1.0f / nl_sqrt_f32(acc1 + epsilon_);
        if (nl_first == 0) {
        }
        if (nl_wide) {
#pragma unroll 1
            for (nl_i64 k = 4 * nl_first; k < nl_terms; k += 4 * nl_group) {
                const auto nl_x_p_ = nl_read<4>(&x_p_[i * x_by_i_ + k], true);
                const auto nl_weight_p_ = nl_read<4>(&weight_p_[k], true);
                const auto nl_bias_p_ = nl_read<4>(&bias_p_[k], true);
                struct {
                    nl_few<real, 4> scaled_p_;
                    nl_few<real, 4> x_p_;
                    nl_few<real, 4> weight_p_;
                    nl_few<real, 4> bias_p_;
                } nl_x = {{}, nl_as<real>(nl_x_p_), nl_as<real>(nl_weight_p_), nl_as<real>(nl_bias_p_)};
                const auto nl_point = [&](int nl_n) {
                    const real x_ = nl_x.x_p_.x[nl_n];
                    const real weight_ = nl_x.weight_p_.x[nl_n];
                    const real bias_ = nl_x.bias_p_.x[nl_n];
                    nl_x.scaled_p_.x[nl_n] = (x_ - acc) * v0_ * weight_ + bias_;
                };
                nl_each<4>(nl_point);
                nl_write(&scaled_p_[i * scaled_by_i_ + k], nl_x.scaled_p_, true);
            }
        } else {
            struct nl_load_found {
                real x_;
                real weight_;
                real bias_;
            };
            const auto nl_load = [&](nl_i64 k) {
                const real x_ = x_p_[i * x_by_i_ + k];
                const real weight_ = weight_p_[k];
                const real bias_ = bias_p_[k];
                return nl_load_found{x_, weight_, bias_};
            };
            const auto nl_work = [&](nl_i64 k, const nl_load_found &nl_load_of) {
                real x_ = nl_load_of.x_;
                real weight_ = nl_load_of.weight_;
                real bias_ = nl_load_of.bias_;
                scaled_p_[i * scaled_by_i_ + k] = (x_ - acc) * v0_ * weight_ + bias_;
            };
            nl_i64 nl_a = nl_first;
#pragma unroll 1
            for (; nl_a + 3ll * nl_group < nl_terms; nl_a += 4 * nl_group) {
                nl_load_found nl_load_of[4];
                nl_each<4>([&](int nl_n) { nl_load_of[nl_n] = nl_load(nl_a + nl_n * nl_group); });
                nl_each<4>([&](int nl_n) { nl_work(nl_a + nl_n * nl_group, nl_load_of[nl_n]); });
            }
#pragma unroll 1
            for (; nl_a < nl_terms; nl_a += nl_group) nl_work(nl_a, nl_load(nl_a));
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k5_rows_over_k(NL_ARGUMENTS) {
    k5_rows_over_k_block(NL_TASK(k5_row));
}

/* ---- k6  seen.query.biased: implicit gemm  (models/transformer.yaml:26:13) */
/* acc = sum over k of x * query_weight; query_biased = acc + query_bias */
struct k6_row {
    real *query_biased_; /* [n][t][o], written */
    const real *x_; /* [n][t][k], read */
    const real *query_weight_; /* [o][k], read */
    const real *query_bias_; /* [o], read */
    nl_i64 n_n_, n_t_, n_o_, n_k_, query_biased_by_n_, query_biased_by_t_, x_by_n_, x_by_t_, query_weight_by_o_;
    nl_i64 s_tile_, s_splits_, s_depth_;
};

NL_PART void k6_implicit_gemm_product(const k6_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const query_weight_p_ = nl_global(self->query_weight_);
    const nl_i64 n_n_ = self->n_n_, n_t_ = self->n_t_, n_o_ = self->n_o_, n_k_ = self->n_k_;
    const nl_i64 x_by_n_ = self->x_by_n_, x_by_t_ = self->x_by_t_, query_weight_by_o_ = self->query_weight_by_o_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = x_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x_by_n_;
    nl_p.of[0].side.steps[1].by = x_by_t_;
    nl_p.of[0].side.steps[1].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = query_weight_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = query_weight_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k6_implicit_gemm_store(const k6_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const query_biased_p_ = nl_global(self->query_biased_);
    const real *__restrict__ const query_bias_p_ = nl_global(self->query_bias_);
    const nl_i64 n_t_ = self->n_t_, query_biased_by_n_ = self->query_biased_by_n_;
    const nl_i64 query_biased_by_t_ = self->query_biased_by_t_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t = nl_take(rest, (nl_u32)n_t_);
        const nl_i64 n = rest;
        query_biased_p_[n * query_biased_by_n_ + t * query_biased_by_t_ + o] = nl_s.at[nl_e] + query_bias_p_[o];
    }
}

/* ---- k7  seen.scaled: implicit gemm  (models/transformer.yaml:26:13) */
/* acc = sum over e of query_heads * key_heads; scaled = acc * scale */
struct k7_row {
    real *scaled_; /* [n][h][t][s], written */
    const real *query_heads_; /* [n][h][t][e], read */
    const real *key_heads_; /* [n][h][s][e], read */
    nl_i64 n_h_, n_t_, n_s_, n_e_, scaled_by_n_, scaled_by_h_, scaled_by_t_, query_heads_by_n_, query_heads_by_h_;
    nl_i64 query_heads_by_t_, key_heads_by_n_, key_heads_by_h_, key_heads_by_s_, s_tile_, s_splits_, s_depth_;
    alignas(8) real scale_;
};

NL_PART void k7_implicit_gemm_product(const k7_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const query_heads_p_ = nl_global(self->query_heads_);
    const real *__restrict__ const key_heads_p_ = nl_global(self->key_heads_);
    const nl_i64 n_h_ = self->n_h_, n_t_ = self->n_t_, n_s_ = self->n_s_, n_e_ = self->n_e_;
    const nl_i64 query_heads_by_n_ = self->query_heads_by_n_, query_heads_by_h_ = self->query_heads_by_h_;
    const nl_i64 query_heads_by_t_ = self->query_heads_by_t_, key_heads_by_n_ = self->key_heads_by_n_;
    const nl_i64 key_heads_by_h_ = self->key_heads_by_h_, key_heads_by_s_ = self->key_heads_by_s_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = query_heads_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 3;
    nl_p.of[0].side.steps[0].by = query_heads_by_n_;
    nl_p.of[0].side.steps[1].by = query_heads_by_h_;
    nl_p.of[0].side.steps[1].extent = n_h_;
    nl_p.of[0].side.steps[2].by = query_heads_by_t_;
    nl_p.of[0].side.steps[2].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = key_heads_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 3;
    nl_p.of[1].side.steps[0].by = key_heads_by_n_;
    nl_p.of[1].side.steps[1].by = key_heads_by_h_;
    nl_p.of[1].side.steps[1].extent = n_h_;
    nl_p.of[1].side.steps[2].by = key_heads_by_s_;
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

NL_PART void k7_implicit_gemm_store(const k7_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const scaled_p_ = nl_global(self->scaled_);
    const nl_i64 n_h_ = self->n_h_, scaled_by_n_ = self->scaled_by_n_, scaled_by_h_ = self->scaled_by_h_;
    const nl_i64 scaled_by_t_ = self->scaled_by_t_;
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
        scaled_p_[n * scaled_by_n_ + h * scaled_by_h_ + t * scaled_by_t_ + s] = nl_s.at[nl_e] * scale_;
    }
}

/* ---- k8  seen.softmax.power: maximum over s  (models/transformer.yaml:26:13) */
struct k8_row {
    real *softmax_power_; /* [i][s], written */
    const real *scaled_; /* [i][s], read */
    nl_i64 n_i_, n_s_, softmax_power_by_i_, scaled_by_i_;
};

NL_FN void k8_maximum_over_s_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k8_row *const self = (const k8_row *)nl_t.self;
    real *__restrict__ const softmax_power_p_ = nl_global(self->softmax_power_);
    const real *__restrict__ const scaled_p_ = nl_global(self->scaled_);
    const nl_i64 n_i_ = self->n_i_, n_s_ = self->n_s_, softmax_power_by_i_ = self->softmax_power_by_i_;
    const nl_i64 scaled_by_i_ = self->scaled_by_i_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_first = threadIdx.x & ((1u << nl_bits) - 1);
    const bool nl_wide = (n_s_ % 4 == 0) & (n_s_ >= 4 * nl_group) & nl_is_aligned<4>(scaled_p_)
        & (scaled_by_i_ % 4 == 0) & nl_is_aligned<4>(softmax_power_p_) & (softmax_power_by_i_ % 4 == 0);
    const nl_i64 nl_end = nl_least(n_i_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + (threadIdx.x >> nl_bits); i < nl_end; i += blockDim.x >> nl_bits) {
        const nl_i64 nl_terms = n_s_;
        real acc = -NL_INF_F32;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 s = 4 * nl_first; s < nl_terms; s += 4 * nl_group) {
                    const auto nl_scaled_p_ = nl_read<4>(&scaled_p_[i * scaled_by_i_ + s], true);
                    struct {
                        nl_few<real, 4> scaled_p_;
                    } nl_x = {nl_as<real>(nl_scaled_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real scaled_ = nl_x.scaled_p_.x[nl_n];
                        acc = nl_max_f32(acc, scaled_);
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 s = nl_first;
                const auto nl_more = [&](int) {
                    acc = nl_max_f32(acc, scaled_p_[i * scaled_by_i_ + s]);
                    s += nl_group;
                };
#pragma unroll 1
                while (s + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
                while (s + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
                while (s < nl_terms) nl_more(0);
            }
            if (nl_are_many(nl_group)) {
                const auto nl_found =
                    nl_joined<real, 1, nl_max_f32>({{acc}}, -NL_INF_F32, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                acc = nl_all.of[0];
            }
        }
        if (nl_first == 0) {
        }
        if (nl_wide) {
#pragma unroll 1
            for (nl_i64 s = 4 * nl_first; s < nl_terms; s += 4 * nl_group) {
                const auto nl_scaled_p_ = nl_read<4>(&scaled_p_[i * scaled_by_i_ + s], true);
                struct {
                    nl_few<real, 4> softmax_power_p_;
                    nl_few<real, 4> scaled_p_;
                } nl_x = {{}, nl_as<real>(nl_scaled_p_)};
                const auto nl_point = [&](int nl_n) {
                    const real scaled_ = nl_x.scaled_p_.x[nl_n];
                    nl_x.softmax_power_p_.x[nl_n] = nl_exp_f32(scaled_ - acc);
                };
                nl_each<4>(nl_point);
                nl_write(&softmax_power_p_[i * softmax_power_by_i_ + s], nl_x.softmax_power_p_, true);
            }
        } else {
            struct nl_load_found {
                real scaled_;
            };
            const auto nl_load = [&](nl_i64 s) {
                const real scaled_ = scaled_p_[i * scaled_by_i_ + s];
                return nl_load_found{scaled_};
            };
            const auto nl_work = [&](nl_i64 s, const nl_load_found &nl_load_of) {
                real scaled_ = nl_load_of.scaled_;
                softmax_power_p_[i * softmax_power_by_i_ + s] = nl_exp_f32(scaled_ - acc);
            };
            nl_i64 nl_a = nl_first;
#pragma unroll 1
            for (; nl_a + 3ll * nl_group < nl_terms; nl_a += 4 * nl_group) {
                nl_load_found nl_load_of[4];
                nl_each<4>([&](int nl_n) { nl_load_of[nl_n] = nl_load(nl_a + nl_n * nl_group); });
                nl_each<4>([&](int nl_n) { nl_work(nl_a + nl_n * nl_group, nl_load_of[nl_n]); });
            }
#pragma unroll 1
            for (; nl_a < nl_terms; nl_a += nl_group) nl_work(nl_a, nl_load(nl_a));
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k8_maximum_over_s(NL_ARGUMENTS) {
    k8_maximum_over_s_block(NL_TASK(k8_row));
}

/* ---- k9  seen.softmax.y: sum over s  (models/transformer.yaml:26:13) */
struct k9_row {
    real *softmax_y_; /* [i][s], written */
    const real *softmax_power_; /* [i][s], read */
    nl_i64 n_i_, n_s_, softmax_y_by_i_, softmax_power_by_i_;
};

NL_FN void k9_sum_over_s_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k9_row *const self = (const k9_row *)nl_t.self;
    real *__restrict__ const softmax_y_p_ = nl_global(self->softmax_y_);
    const real *__restrict__ const softmax_power_p_ = nl_global(self->softmax_power_);
    const nl_i64 n_i_ = self->n_i_, n_s_ = self->n_s_, softmax_y_by_i_ = self->softmax_y_by_i_;
    const nl_i64 softmax_power_by_i_ = self->softmax_power_by_i_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_first = threadIdx.x & ((1u << nl_bits) - 1);
    const bool nl_wide = (n_s_ % 4 == 0) & (n_s_ >= 4 * nl_group) & nl_is_aligned<4>(softmax_power_p_)
        & (softmax_power_by_i_ % 4 == 0) & nl_is_aligned<4>(softmax_y_p_) & (softmax_y_by_i_ % 4 == 0);
    const nl_i64 nl_end = nl_least(n_i_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + (threadIdx.x >> nl_bits); i < nl_end; i += blockDim.x >> nl_bits) {
        const nl_i64 nl_terms = n_s_;
        real acc = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 s = 4 * nl_first; s < nl_terms; s += 4 * nl_group) {
                    const auto nl_softmax_power_p_ = nl_read<4>(&softmax_power_p_[i * softmax_power_by_i_ + s], true);
                    struct {
                        nl_few<real, 4> softmax_power_p_;
                    } nl_x = {nl_as<real>(nl_softmax_power_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real softmax_power_ = nl_x.softmax_power_p_.x[nl_n];
                        acc += softmax_power_;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 s = nl_first;
                const auto nl_more = [&](int) {
                    acc += softmax_power_p_[i * softmax_power_by_i_ + s];
                    s += nl_group;
                };
#pragma unroll 1
                while (s + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
                while (s + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
                while (s < nl_terms) nl_more(0);
            }
            if (nl_are_many(nl_group)) {
                const auto nl_found =
                    nl_joined<real, 1, nl_sum_of<real>>({{acc}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                acc = nl_all.of[0];
            }
        }
        if (nl_first == 0) {
        }
        if (nl_wide) {
#pragma unroll 1
            for (nl_i64 s = 4 * nl_first; s < nl_terms; s += 4 * nl_group) {
                const auto nl_softmax_power_p_ = nl_read<4>(&softmax_power_p_[i * softmax_power_by_i_ + s], true);
                struct {
                    nl_few<real, 4> softmax_y_p_;
                    nl_few<real, 4> softmax_power_p_;
                } nl_x = {{}, nl_as<real>(nl_softmax_power_p_)};
                const auto nl_point = [&](int nl_n) {
                    const real softmax_power_ = nl_x.softmax_power_p_.x[nl_n];
                    nl_x.softmax_y_p_.x[nl_n] = softmax_power_ / acc;
                };
                nl_each<4>(nl_point);
                nl_write(&softmax_y_p_[i * softmax_y_by_i_ + s], nl_x.softmax_y_p_, true);
            }
        } else {
            struct nl_load_found {
                real softmax_power_;
            };
            const auto nl_load = [&](nl_i64 s) {
                const real softmax_power_ = softmax_power_p_[i * softmax_power_by_i_ + s];
                return nl_load_found{softmax_power_};
            };
            const auto nl_work = [&](nl_i64 s, const nl_load_found &nl_load_of) {
                real softmax_power_ = nl_load_of.softmax_power_;
                softmax_y_p_[i * softmax_y_by_i_ + s] = softmax_power_ / acc;
            };
            nl_i64 nl_a = nl_first;
#pragma unroll 1
            for (; nl_a + 3ll * nl_group < nl_terms; nl_a += 4 * nl_group) {
                nl_load_found nl_load_of[4];
                nl_each<4>([&](int nl_n) { nl_load_of[nl_n] = nl_load(nl_a + nl_n * nl_group); });
                nl_each<4>([&](int nl_n) { nl_work(nl_a + nl_n * nl_group, nl_load_of[nl_n]); });
            }
#pragma unroll 1
            for (; nl_a < nl_terms; nl_a += nl_group) nl_work(nl_a, nl_load(nl_a));
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k9_sum_over_s(NL_ARGUMENTS) {
    k9_sum_over_s_block(NL_TASK(k9_row));
}

/* ---- k10  seen.context: implicit gemm  (models/transformer.yaml:26:13) */
/* context = sum over s of softmax_y * value_heads */
struct k10_row {
    real *context_; /* [n][t][h][e], written */
    const real *softmax_y_; /* [n][t][h][s], read */
    const real *value_heads_; /* [n][h][s][e], read */
    nl_i64 n_t_, n_h_, n_e_, n_s_, context_by_n_, context_by_t_, context_by_h_, softmax_y_by_n_, softmax_y_by_t_;
    nl_i64 softmax_y_by_h_, value_heads_by_n_, value_heads_by_h_, value_heads_by_s_, s_tile_, s_splits_, s_depth_;
};

NL_PART void k10_implicit_gemm_product(const k10_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const softmax_y_p_ = nl_global(self->softmax_y_);
    const real *__restrict__ const value_heads_p_ = nl_global(self->value_heads_);
    const nl_i64 n_t_ = self->n_t_, n_h_ = self->n_h_, n_e_ = self->n_e_, n_s_ = self->n_s_;
    const nl_i64 softmax_y_by_n_ = self->softmax_y_by_n_, softmax_y_by_t_ = self->softmax_y_by_t_;
    const nl_i64 softmax_y_by_h_ = self->softmax_y_by_h_, value_heads_by_n_ = self->value_heads_by_n_;
    const nl_i64 value_heads_by_h_ = self->value_heads_by_h_, value_heads_by_s_ = self->value_heads_by_s_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = softmax_y_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 3;
    nl_p.of[0].side.steps[0].by = softmax_y_by_n_;
    nl_p.of[0].side.steps[1].by = softmax_y_by_h_;
    nl_p.of[0].side.steps[1].extent = n_h_;
    nl_p.of[0].side.steps[2].by = softmax_y_by_t_;
    nl_p.of[0].side.steps[2].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = value_heads_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = false;
    nl_p.of[1].side.count = 3;
    nl_p.of[1].side.steps[0].by = value_heads_by_n_;
    nl_p.of[1].side.steps[1].by = value_heads_by_h_;
    nl_p.of[1].side.steps[1].extent = n_h_;
    nl_p.of[1].side.steps[2].by = 1;
    nl_p.of[1].side.steps[2].extent = n_e_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = value_heads_by_s_;
    nl_p.m = n_t_;
    nl_p.n = n_e_;
    nl_p.k = n_s_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k10_implicit_gemm_store(const k10_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const context_p_ = nl_global(self->context_);
    const nl_i64 n_h_ = self->n_h_, context_by_n_ = self->context_by_n_, context_by_t_ = self->context_by_t_;
    const nl_i64 context_by_h_ = self->context_by_h_;
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
        context_p_[n * context_by_n_ + t * context_by_t_ + h * context_by_h_ + e] = nl_s.at[nl_e];
    }
}

/* ---- k11  mixed.y: implicit gemm  (models/transformer.yaml:26:13) */
/* acc = sum over k of x * weight; y = x + (acc + bias) */
struct k11_row {
    real *y_; /* [n][t][o], written */
    const real *x_; /* [n][t][k], read */
    const real *weight_; /* [o][k], read */
    const real *x_2_; /* [n][t][o], read */
    const real *bias_; /* [o], read */
    nl_i64 n_n_, n_t_, n_o_, n_k_, y_by_n_, y_by_t_, x_by_n_, x_by_t_, weight_by_o_, x_by_n_2_, x_by_t_2_, s_tile_;
    nl_i64 s_splits_, s_depth_;
};

NL_PART void k11_implicit_gemm_product(const k11_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const nl_i64 n_n_ = self->n_n_, n_t_ = self->n_t_, n_o_ = self->n_o_, n_k_ = self->n_k_;
    const nl_i64 x_by_n_ = self->x_by_n_, x_by_t_ = self->x_by_t_, weight_by_o_ = self->weight_by_o_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = x_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x_by_n_;
    nl_p.of[0].side.steps[1].by = x_by_t_;
    nl_p.of[0].side.steps[1].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = weight_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = weight_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k11_implicit_gemm_store(const k11_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x_p_2_ = nl_global(self->x_2_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const nl_i64 n_t_ = self->n_t_, y_by_n_ = self->y_by_n_, y_by_t_ = self->y_by_t_, x_by_n_2_ = self->x_by_n_2_;
    const nl_i64 x_by_t_2_ = self->x_by_t_2_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t = nl_take(rest, (nl_u32)n_t_);
        const nl_i64 n = rest;
        y_p_[n * y_by_n_ + t * y_by_t_ + o] = x_p_2_[n * x_by_n_2_ + t * x_by_t_2_ + o] + (nl_s.at[nl_e] + bias_p_[o]);
    }
}

/* ---- k12  dense.activated: implicit gemm  (models/transformer.yaml:29:13) */
/* acc = sum over k of x * weight; activated = 0.5 * (acc + bias) * (1.0 + erf((acc + bias) * 0.7071067811865476)) */
struct k12_row {
    real *activated_; /* [n][t][o], written */
    const real *x_; /* [n][t][k], read */
    const real *weight_; /* [o][k], read */
    const real *bias_; /* [o], read */
    nl_i64 n_n_, n_t_, n_o_, n_k_, activated_by_n_, activated_by_t_, x_by_n_, x_by_t_, weight_by_o_, s_tile_;
    nl_i64 s_splits_, s_depth_;
};

NL_PART void k12_implicit_gemm_product(const k12_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const nl_i64 n_n_ = self->n_n_, n_t_ = self->n_t_, n_o_ = self->n_o_, n_k_ = self->n_k_;
    const nl_i64 x_by_n_ = self->x_by_n_, x_by_t_ = self->x_by_t_, weight_by_o_ = self->weight_by_o_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = x_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].deep_first = true;
    nl_p.of[0].side.count = 2;
    nl_p.of[0].side.steps[0].by = x_by_n_;
    nl_p.of[0].side.steps[1].by = x_by_t_;
    nl_p.of[0].side.steps[1].extent = n_t_;
    nl_p.of[0].deep.count = 1;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = weight_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].deep_first = true;
    nl_p.of[1].side.count = 1;
    nl_p.of[1].side.steps[0].by = weight_by_o_;
    nl_p.of[1].deep.count = 1;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_ * n_t_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k12_implicit_gemm_store(const k12_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const activated_p_ = nl_global(self->activated_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const nl_i64 n_t_ = self->n_t_, activated_by_n_ = self->activated_by_n_;
    const nl_i64 activated_by_t_ = self->activated_by_t_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        nl_u32 rest = nl_slow;
        const nl_i64 t = nl_take(rest, (nl_u32)n_t_);
        const nl_i64 n = rest;
        const real bias_ = bias_p_[o];
        activated_p_[n * activated_by_n_ + t * activated_by_t_ + o] =
            0.5f * (nl_s.at[nl_e] + bias_) * (1.0f + nl_erf_f32((nl_s.at[nl_e] + bias_) * 0.70710677f));
    }
}

/* ---- k13  layer_norm.mean: rows over o  (models/transformer.yaml:32:7) */
struct k13_row {
    real *mean_; /* [i], written */
    const real *x_; /* [i][o], read */
    real *inverse_; /* [i], written */
    nl_i64 n_i_, n_o_, x_by_i_;
    alignas(8) real share_, epsilon_;
};

NL_FN void k13_rows_over_o_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k13_row *const self = (const k13_row *)nl_t.self;
    real *__restrict__ const mean_p_ = nl_global(self->mean_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    real *__restrict__ const inverse_p_ = nl_global(self->inverse_);
    const nl_i64 n_i_ = self->n_i_, n_o_ = self->n_o_, x_by_i_ = self->x_by_i_;
    const real share_ = self->share_, epsilon_ = self->epsilon_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_first = threadIdx.x & ((1u << nl_bits) - 1);
    const bool nl_wide = (n_o_ % 4 == 0) & (n_o_ >= 4 * nl_group) & nl_is_aligned<4>(x_p_) & (x_by_i_ % 4 == 0);
    const nl_i64 nl_end = nl_least(n_i_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 i = nl_me.part * nl_t.chunk + (threadIdx.x >> nl_bits); i < nl_end; i += blockDim.x >> nl_bits) {
        const nl_i64 nl_terms = n_o_;
        real mean_ = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[i * x_by_i_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        mean_ += x_ * share_;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    mean_ += x_p_[i * x_by_i_ + o] * share_;
                    o += nl_group;
                };
#pragma unroll 1
                while (o + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
                while (o + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
                while (o < nl_terms) nl_more(0);
            }
            if (nl_are_many(nl_group)) {
                const auto nl_found =
                    nl_joined<real, 1, nl_sum_of<real>>({{mean_}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                mean_ = nl_all.of[0];
            }
        }
        if (nl_first == 0) mean_p_[i] = mean_;
        real acc1 = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[i * x_by_i_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        acc1 += (x_ - mean_) * (x_ - mean_) * share_;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    const real x_ = x_p_[i * x_by_i_ + o];
                    acc1 += (x_ - mean_) * (x_ - mean_) * share_;
                    o += nl_group;
                };
#pragma unroll 1
                while (o + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
                while (o + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
                while (o < nl_terms) nl_more(0);
            }
            if (nl_are_many(nl_group)) {
                const auto nl_found =
                    nl_joined<real, 1, nl_sum_of<real>>({{acc1}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                acc1 = nl_all.of[0];
            }
        }
        real inverse_ = 1.0f / nl_sqrt_f32(acc1 + epsilon_);
        if (nl_first == 0) inverse_p_[i] = inverse_;
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k13_rows_over_o(NL_ARGUMENTS) {
    k13_rows_over_o_block(NL_TASK(k13_row));
}

/* ---- k14  global_avg_pool.y: sum over t  (models/transformer.yaml:34:7) */
struct k14_row {
    real *y_; /* [n][k], written */
    const real *weight_; /* [k], read */
    const real *bias_; /* [k], read */
    const real *x_; /* [n][t][k], read */
    const real *mean_; /* [n][t], read */
    const real *inverse_; /* [n][t], read */
    nl_i64 n_n_, n_k_, n_t_, y_by_n_, x_by_n_, x_by_t_, mean_by_n_, inverse_by_n_;
    alignas(8) real share_;
};

NL_FN void k14_sum_over_t_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k14_row *const self = (const k14_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const mean_p_ = nl_global(self->mean_);
    const real *__restrict__ const inverse_p_ = nl_global(self->inverse_);
    const nl_i64 n_n_ = self->n_n_, n_k_ = self->n_k_, n_t_ = self->n_t_, y_by_n_ = self->y_by_n_;
    const nl_i64 x_by_n_ = self->x_by_n_, x_by_t_ = self->x_by_t_, mean_by_n_ = self->mean_by_n_;
    const nl_i64 inverse_by_n_ = self->inverse_by_n_;
    const real share_ = self->share_;
    const nl_u32 k_inverse = nl_inverse(n_k_);
    nl_wait();
    const nl_u32 nl_splits = nl_t.group, nl_share = nl_me.part % nl_splits;
    const int nl_many = n_k_ % 4 == 0 ? 4 : 1;
    const nl_i64 nl_points = n_n_ * n_k_;
    const nl_u32 nl_lanes = nl_lanes_of(nl_points, nl_many);
    const nl_i64 nl_point = (nl_me.part / nl_splits * 32ll + threadIdx.x % nl_lanes) * nl_many;
    const nl_i64 e = nl_least(nl_point, nl_points - nl_many);
    const bool nl_even = (nl_many == 4) & nl_is_aligned<4>(x_p_) & (x_by_n_ % 4 == 0) & (x_by_t_ % 4 == 0);
    nl_u64 rest = e;
    const nl_i64 k = nl_take(rest, n_k_, k_inverse);
    const nl_i64 n = rest;
    const struct {
        nl_few<real, 4> weight_p_;
        nl_few<real, 4> bias_p_;
    } nl_same = {nl_as<real>(nl_get<4>(&weight_p_[k], nl_many, nl_even)),
        nl_as<real>(nl_get<4>(&bias_p_[k], nl_many, nl_even))};
    real parts[] = {0.0f, 0.0f, 0.0f, 0.0f};
    const nl_i64 nl_terms = n_t_;
    const nl_u32 nl_rows = 256 / nl_lanes;
    const nl_u32 nl_first = nl_share * nl_rows + threadIdx.x / nl_lanes, nl_group = nl_splits * nl_rows;
    nl_i64 t = nl_first;
    const auto nl_more = [&](int) {
        const struct {
            nl_few<real, 4> x_p_;
            real mean_p_;
            real inverse_p_;
        } nl_x = {nl_get_aligned<real>(&x_p_[n * x_by_n_ + t * x_by_t_ + k]), mean_p_[n * mean_by_n_ + t],
            inverse_p_[n * inverse_by_n_ + t]};
        nl_each<4>([&](int nl_n) {
            const real weight_ = nl_same.weight_p_.x[nl_n];
            const real bias_ = nl_same.bias_p_.x[nl_n];
            const real x_ = nl_x.x_p_.x[nl_n];
            const real mean_ = nl_x.mean_p_;
            const real inverse_ = nl_x.inverse_p_;
            parts[nl_n] += ((x_ - mean_) * inverse_ * weight_ + bias_) * share_;
        });
        t += nl_group;
    };
    const auto nl_apart = [&] {
        const struct {
            nl_few<real, 4> x_p_;
            real mean_p_;
            real inverse_p_;
        } nl_x = {nl_as<real>(nl_get<4>(&x_p_[n * x_by_n_ + t * x_by_t_ + k], nl_many, nl_even)),
            mean_p_[n * mean_by_n_ + t], inverse_p_[n * inverse_by_n_ + t]};
        nl_each<4>([&](int nl_n) {
            const real weight_ = nl_same.weight_p_.x[nl_n];
            const real bias_ = nl_same.bias_p_.x[nl_n];
            const real x_ = nl_x.x_p_.x[nl_n];
            const real mean_ = nl_x.mean_p_;
            const real inverse_ = nl_x.inverse_p_;
            parts[nl_n] += ((x_ - mean_) * inverse_ * weight_ + bias_) * share_;
        });
        t += nl_group;
    };
    if (nl_even) {
#pragma unroll 1
        while (t + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
        while (t + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (t < nl_terms) nl_more(0);
    } else {
#pragma unroll 1
        while (t < nl_terms) nl_apart();
    }
    const auto nl_all = nl_joined_columns<real, 4, nl_sum_of<real>>({{parts[0], parts[1], parts[2], parts[3]}}, 0.0f,
        nl_me, nl_t.memory, nl_splits, nl_lanes);
    if (!nl_all.here || nl_point >= nl_points) return;
    const nl_i64 nl_first_own = k;
    nl_each<4>([&](int nl_n) {
        if (nl_n >= nl_many) return;
        const nl_i64 k = nl_first_own + nl_n;
        const real acc = nl_all.of[nl_n];
        y_p_[n * y_by_n_ + k] = acc;
    });
}
extern "C" __global__ void __launch_bounds__(256, 2) k14_sum_over_t(NL_ARGUMENTS) {
    k14_sum_over_t_block(NL_TASK(k14_row));
}

/* ---- k15  logits.biased: matmul  (models/transformer.yaml:35:7) */
/* acc = sum over k of x * weight; biased = acc + bias */
struct k15_row {
    real *biased_; /* [n][o], written */
    const real *x_; /* [n][k], read */
    const real *weight_; /* [o][k], read */
    const real *bias_; /* [o], read */
    nl_i64 n_n_, n_o_, n_k_, biased_by_n_, x_by_n_, weight_by_o_, s_tile_, s_splits_, s_depth_;
};

NL_PART void k15_matmul_product(const k15_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const nl_i64 n_n_ = self->n_n_, n_o_ = self->n_o_, n_k_ = self->n_k_, x_by_n_ = self->x_by_n_;
    const nl_i64 weight_by_o_ = self->weight_by_o_, s_tile_ = self->s_tile_, s_splits_ = self->s_splits_;
    const nl_i64 s_depth_ = self->s_depth_;
    nl_p.of[0].data = x_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = x_by_n_;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = weight_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = weight_by_o_;
    nl_p.of[1].deep.steps[0].by = 1;
    nl_p.m = n_n_;
    nl_p.n = n_o_;
    nl_p.k = n_k_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k15_matmul_store(const k15_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const biased_p_ = nl_global(self->biased_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const nl_i64 biased_by_n_ = self->biased_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        biased_p_[n * biased_by_n_ + o] = nl_s.at[nl_e] + bias_p_[o];
    }
}


/* ---- implicit_gemm_plain_plain (nl_group says for which): k4, k6, k7, k10, k11, k12 */
extern "C" __global__ void __launch_bounds__(256, 3) implicit_gemm_plain_plain(NL_ARGUMENTS) {
    __shared__ nl_product nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 4:
            k4_implicit_gemm_product((const k4_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 6:
            k6_implicit_gemm_product((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 7:
            k7_implicit_gemm_product((const k7_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 10:
            k10_implicit_gemm_product((const k10_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 11:
            k11_implicit_gemm_product((const k11_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 12:
            k12_implicit_gemm_product((const k12_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_sums nl_s;
    if (!nl_implicit_gemm<0, nl_reader<0, real>, nl_reader<0, real>>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 4:
        k4_implicit_gemm_store((const k4_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 6:
        k6_implicit_gemm_store((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 7:
        k7_implicit_gemm_store((const k7_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 10:
        k10_implicit_gemm_store((const k10_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 11:
        k11_implicit_gemm_store((const k11_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 12:
        k12_implicit_gemm_store((const k12_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- matmul (nl_group says for which): k15 */
extern "C" __global__ void __launch_bounds__(256, 3) matmul(NL_ARGUMENTS) {
    __shared__ nl_product nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 15:
            k15_matmul_product((const k15_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_sums nl_s;
    if (!nl_matmul(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 15:
        k15_matmul_store((const k15_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}
