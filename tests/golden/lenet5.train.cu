/* ==== kernels ==================================================================================== */
/* ---- k0  conv1.weight: initial value (uniform)  (models/lenet5.yaml:14:7) */
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

/* ---- k1  batch.mask: rows that exist  (models/lenet5.yaml:25:5) */
struct k1_row {
    real *y_; /* [row], written */
    const nl_i32 *order_; /* [k], read */
    nl_i64 n_row_, batches_, padded_;
};

NL_FN void k1_rows_that_exist_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k1_row *const self = (const k1_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const nl_i32 *__restrict__ const order_p_ = nl_global(self->order_);
    const nl_i64 n_row_ = self->n_row_, batches_ = self->batches_, padded_ = self->padded_;
    const nl_i64 of_step = nl_mod_i64(step - 1, batches_);
    nl_wait();
    const nl_i64 nl_end = nl_least(n_row_, (nl_me.part + 1ll) * nl_t.chunk);
    struct nl_load_found {
        nl_i32 order_;
    };
    const auto nl_load = [&](nl_i64 row) {
        nl_i64 k_ = of_step * padded_ + row;
        const nl_i32 order_ = order_p_[k_];
        return nl_load_found{order_};
    };
    const auto nl_work = [&](nl_i64 row, const nl_load_found &nl_load_of) {
        nl_i32 order_ = nl_load_of.order_;
        y_p_[row] = order_ >= 0 ? 1.0f : 0.0f;
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
extern "C" __global__ void NL_BLOCK k1_rows_that_exist(NL_ARGUMENTS) {
    k1_rows_that_exist_block(NL_TASK(k1_row));
}

/* ---- k2  batch.count: sum over n  (models/lenet5.yaml:25:5) */
struct k2_row {
    real *count_; /* written */
    const real *mask_; /* [n], read */
    double *count_after_; /* updated */
    real *rows_grad_; /* [n], written */
    real *picked_grad_; /* [n], written */
    nl_i64 n_n_;
};

NL_FN void k2_sum_over_n_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k2_row *const self = (const k2_row *)nl_t.self;
    real *__restrict__ const count_p_ = nl_global(self->count_);
    const real *__restrict__ const mask_p_ = nl_global(self->mask_);
    double *__restrict__ const count_after_p_ = nl_global(self->count_after_);
    real *__restrict__ const rows_grad_p_ = nl_global(self->rows_grad_);
    real *__restrict__ const picked_grad_p_ = nl_global(self->picked_grad_);
    const nl_i64 n_n_ = self->n_n_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_first = threadIdx.x & ((1u << nl_bits) - 1);
    const bool nl_wide = (n_n_ % 4 == 0) & (n_n_ >= 4 * nl_group) & nl_is_aligned<4>(mask_p_)
        & nl_is_aligned<4>(rows_grad_p_) & nl_is_aligned<4>(picked_grad_p_);
    const nl_i64 nl_end = nl_least(1ll, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end; e += blockDim.x >> nl_bits) {
        const nl_i64 nl_terms = n_n_;
        real count_ = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 n = 4 * nl_first; n < nl_terms; n += 4 * nl_group) {
                    const auto nl_mask_p_ = nl_read<4>(&mask_p_[n], true);
                    struct {
                        nl_few<real, 4> mask_p_;
                    } nl_x = {nl_as<real>(nl_mask_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real mask_ = nl_x.mask_p_.x[nl_n];
                        count_ += mask_;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 n = nl_first;
                const auto nl_more = [&](int) {
                    count_ += mask_p_[n];
                    n += nl_group;
                };
#pragma unroll 1
                while (n + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
                while (n + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
                while (n < nl_terms) nl_more(0);
            }
            if (nl_are_many(nl_group)) {
                const auto nl_found =
                    nl_joined<real, 1, nl_sum_of<real>>({{count_}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                count_ = nl_all.of[0];
            }
        }
        real v0_ = 1.0f / count_;
        double count_after_ = count_after_p_[0];
        count_after_ = count_after_ + (double)count_;
        if (nl_first == 0) {
            count_p_[0] = count_;
            count_after_p_[0] = count_after_;
        }
        if (nl_wide) {
#pragma unroll 1
            for (nl_i64 n = 4 * nl_first; n < nl_terms; n += 4 * nl_group) {
                const auto nl_mask_p_ = nl_read<4>(&mask_p_[n], true);
                struct {
                    nl_few<real, 4> mask_p_;
                    nl_few<real, 4> rows_grad_p_;
                    nl_few<real, 4> picked_grad_p_;
                } nl_x = {nl_as<real>(nl_mask_p_), {}, {}};
                const auto nl_point = [&](int nl_n) {
                    const real mask_ = nl_x.mask_p_.x[nl_n];
                    real rows_grad_ = v0_ * mask_;
                    nl_x.rows_grad_p_.x[nl_n] = rows_grad_;
                    nl_x.picked_grad_p_.x[nl_n] = rows_grad_ * -1.0f;
                };
                nl_each<4>(nl_point);
                nl_write(&rows_grad_p_[n], nl_x.rows_grad_p_, true);
                nl_write(&picked_grad_p_[n], nl_x.picked_grad_p_, true);
            }
        } else {
            struct nl_load_found {
                real mask_;
            };
            const auto nl_load = [&](nl_i64 n) {
                const real mask_ = mask_p_[n];
                return nl_load_found{mask_};
            };
            const auto nl_work = [&](nl_i64 n, const nl_load_found &nl_load_of) {
                real mask_ = nl_load_of.mask_;
                real rows_grad_ = v0_ * mask_;
                rows_grad_p_[n] = rows_grad_;
                picked_grad_p_[n] = rows_grad_ * -1.0f;
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
extern "C" __global__ void __launch_bounds__(256, 4) k2_sum_over_n(NL_ARGUMENTS) {
    k2_sum_over_n_block(NL_TASK(k2_row));
}

/* ---- k3  image: batch of data.images  (models/lenet5.yaml:10:5) */
struct k3_row {
    real *y_; /* [row][f], written */
    const nl_i32 *order_; /* [k], read */
    const real *data_; /* [example][f], read */
    nl_i64 n_f_, n_row_, batches_, padded_;
    alignas(8) real factor_;
};

NL_FN void k3_batch_of_data_images_block(const nl_task &nl_t) {
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
extern "C" __global__ void NL_BLOCK k3_batch_of_data_images(NL_ARGUMENTS) {
    k3_batch_of_data_images_block(NL_TASK(k3_row));
}

/* ---- k4  label: batch of data.labels  (models/lenet5.yaml:11:5) */
struct k4_row {
    nl_i32 *y_; /* [row][f], written */
    const nl_i32 *order_; /* [k], read */
    const nl_i32 *data_; /* [example][f], read */
    nl_i64 n_f_, n_row_, batches_, padded_;
};

NL_FN void k4_batch_of_data_labels_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k4_row *const self = (const k4_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    nl_i32 *__restrict__ const y_p_ = nl_global(self->y_);
    const nl_i32 *__restrict__ const order_p_ = nl_global(self->order_);
    const nl_i32 *__restrict__ const data_p_ = nl_global(self->data_);
    const nl_i64 n_f_ = self->n_f_, n_row_ = self->n_row_, batches_ = self->batches_, padded_ = self->padded_;
    const nl_i64 of_step = nl_mod_i64(step - 1, batches_);
    const nl_u32 f_inverse = nl_inverse(n_f_);
    nl_wait();
    const nl_i64 nl_end = nl_least(n_row_ * n_f_, (nl_me.part + 1ll) * nl_t.chunk);
    struct nl_load_found {
        nl_i64 f;
        nl_i64 row;
        nl_i32 data_;
    };
    const auto nl_load = [&](nl_i64 e) {
        nl_u64 rest = e;
        const nl_i64 f = nl_take(rest, n_f_, f_inverse);
        const nl_i64 row = rest;
        nl_i64 k_ = of_step * padded_ + row;
        nl_i32 example_ = nl_max_i32(order_p_[k_], 0);
        const nl_i32 data_ = data_p_[example_ * n_f_ + f];
        return nl_load_found{f, row, data_};
    };
    const auto nl_work = [&](nl_i64 e, const nl_load_found &nl_load_of) {
        nl_i64 f = nl_load_of.f;
        nl_i64 row = nl_load_of.row;
        nl_i32 data_ = nl_load_of.data_;
        y_p_[row * n_f_ + f] = data_;
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
extern "C" __global__ void NL_BLOCK k4_batch_of_data_labels(NL_ARGUMENTS) {
    k4_batch_of_data_labels_block(NL_TASK(k4_row));
}

/* ---- k5  upsample.spread: elementwise  (models/lenet5.yaml:13:7) */
struct k5_row {
    real *spread_; /* [i][j][k][l], written */
    const real *image_; /* [i][k], read */
    nl_i64 n_i_, n_j_, n_k_, n_l_, spread_by_i_, spread_by_j_, spread_by_k_, image_by_i_;
};

NL_FN void k5_elementwise_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k5_row *const self = (const k5_row *)nl_t.self;
    real *__restrict__ const spread_p_ = nl_global(self->spread_);
    const real *__restrict__ const image_p_ = nl_global(self->image_);
    const nl_i64 n_i_ = self->n_i_, n_j_ = self->n_j_, n_k_ = self->n_k_, n_l_ = self->n_l_;
    const nl_i64 spread_by_i_ = self->spread_by_i_, spread_by_j_ = self->spread_by_j_;
    const nl_i64 spread_by_k_ = self->spread_by_k_, image_by_i_ = self->image_by_i_;
    const nl_u32 j_inverse = nl_inverse(n_j_);
    const nl_u32 k_inverse = nl_inverse(n_k_);
    const nl_u32 l_inverse = nl_inverse(n_l_);
    nl_wait();
    const bool nl_wide = (nl_t.chunk >= 4 * blockDim.x) & (n_l_ % 4 == 0) & nl_is_aligned<4>(spread_p_)
        & (spread_by_i_ % 4 == 0) & (spread_by_j_ % 4 == 0) & (spread_by_k_ % 4 == 0);
    const int nl_width = nl_wide ? 4 : 1;
    const nl_i64 nl_end = nl_least(n_i_ * n_j_ * n_k_ * n_l_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + nl_width * threadIdx.x; e < nl_end; e += nl_width * blockDim.x) {
        nl_u64 rest = e;
        const nl_i64 l = nl_take(rest, n_l_, l_inverse);
        const nl_i64 k = nl_take(rest, n_k_, k_inverse);
        const nl_i64 j = nl_take(rest, n_j_, j_inverse);
        const nl_i64 i = rest;
        struct {
            nl_few<real, 4> spread_p_;
            real image_p_;
        } nl_x = {{}, image_p_[i * image_by_i_ + k]};
        const auto nl_point = [&](int nl_n) {
            const real image_ = nl_x.image_p_;
            nl_x.spread_p_.x[nl_n] = image_;
        };
        if (!nl_wide) nl_point(0);
        else nl_each<4>(nl_point);
        nl_write(&spread_p_[i * spread_by_i_ + j * spread_by_j_ + k * spread_by_k_ + l], nl_x.spread_p_, nl_wide);
    }
}
extern "C" __global__ void __launch_bounds__(256, 3) k5_elementwise(NL_ARGUMENTS) {
    k5_elementwise_block(NL_TASK(k5_row));
}

/* ---- k6  conv1.activated: direct conv  (models/lenet5.yaml:14:7) */
/* acc = sum over c, r, s of x * weight; activated = relu(acc + bias) */
struct k6_row {
    real *activated_; /* [n][k][oh][ow], written */
    const real *x_; /* [n][c][oh + r + x_from2][ow + s + x_from3], read */
    const real *weight_; /* [k][c][r][s], read */
    const real *bias_; /* [k], read */
    nl_i64 n_n_, n_k_, n_oh_, n_ow_, n_c_, n_r_, activated_by_n_, activated_by_k_, activated_by_oh_, x_by_n_;
    nl_i64 x_by_c_, x_stride2_, x_from2_, x_extent2_, x_from3_, x_extent3_, weight_by_k_, weight_by_c_;
    nl_i64 weight_by_r_, s_strips_, s_rows_, s_samples_, s_blocks_, s_deep_, s_channels_;
};

NL_PART void k6_direct_conv_product(const k6_row *self, nl_i64 step, nl_convolution &nl_p) {
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const nl_i64 n_n_ = self->n_n_, n_k_ = self->n_k_, n_oh_ = self->n_oh_, n_ow_ = self->n_ow_, n_c_ = self->n_c_;
    const nl_i64 n_r_ = self->n_r_, x_by_n_ = self->x_by_n_, x_by_c_ = self->x_by_c_, x_stride2_ = self->x_stride2_;
    const nl_i64 x_from2_ = self->x_from2_, x_extent2_ = self->x_extent2_, x_from3_ = self->x_from3_;
    const nl_i64 x_extent3_ = self->x_extent3_, weight_by_k_ = self->weight_by_k_;
    const nl_i64 weight_by_c_ = self->weight_by_c_, weight_by_r_ = self->weight_by_r_, s_strips_ = self->s_strips_;
    const nl_i64 s_rows_ = self->s_rows_, s_samples_ = self->s_samples_, s_blocks_ = self->s_blocks_;
    const nl_i64 s_deep_ = self->s_deep_, s_channels_ = self->s_channels_;
    nl_p.image = nl_image{x_p_, x_by_n_, (nl_i32)x_by_c_, (nl_i32)x_stride2_, 1, (nl_i32)n_n_, (nl_i32)n_c_,
        (nl_i32)x_extent2_, (nl_i32)x_extent3_, (nl_i32)x_from2_, (nl_i32)x_from3_};
    nl_p.weights = weight_p_;
    nl_p.by_o = (nl_i32)weight_by_k_;
    nl_p.by_c = (nl_i32)weight_by_c_;
    nl_p.by_r = (nl_i32)weight_by_r_;
    nl_p.by_s = 1;
    nl_p.outs = (nl_i32)n_k_;
    nl_p.rows = (nl_i32)n_oh_;
    nl_p.cols = (nl_i32)n_ow_;
    nl_p.taps = (nl_i32)n_r_;
    nl_p.step = 1;
    nl_p.tap = 1;
    nl_p.strips = (nl_i32)s_strips_;
    nl_p.height = (nl_i32)s_rows_;
    nl_p.samples = (nl_i32)s_samples_;
    nl_p.blocks = (nl_i32)s_blocks_;
    nl_p.deep = (nl_i32)s_deep_;
    nl_p.channels = (nl_i32)s_channels_;
}

NL_PART void k6_direct_conv_store(const k6_row *self, nl_i64 step, const nl_strips &nl_s) {
    real *__restrict__ const activated_p_ = nl_global(self->activated_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const nl_i64 activated_by_n_ = self->activated_by_n_, activated_by_k_ = self->activated_by_k_;
    const nl_i64 activated_by_oh_ = self->activated_by_oh_;
    struct nl_read {
        real sum;
        real bias_;
    };
    const nl_strips nl_own = nl_s;
    const nl_i64 n = nl_own.n, oh = nl_own.i;
    const real *nl_at = nl_in_shared(nl_own.at);
#pragma unroll 1
    for (nl_i64 k = nl_own.o; k < nl_own.o_end; k += nl_own.by_o, nl_at += nl_own.far) {
        nl_read nl_x[4];
#pragma unroll
        for (int nl_p = 0; nl_p < 4; nl_p++) {
            const int nl_q = nl_own.q + ((nl_p + nl_own.turn) & 3) * nl_own.by_q;
            const nl_i64 ow = nl_own.j + nl_q;
            if (ow < nl_own.j_end) nl_x[nl_p] = nl_read{nl_at[nl_q], bias_p_[k]};
        }
#pragma unroll
        for (int nl_p = 0; nl_p < 4; nl_p++) {
            const nl_i64 ow = nl_own.j + nl_own.q + ((nl_p + nl_own.turn) & 3) * nl_own.by_q;
            if (ow >= nl_own.j_end) continue;
            const real bias_ = nl_x[nl_p].bias_;
            activated_p_[n * activated_by_n_ + k * activated_by_k_ + oh * activated_by_oh_ + ow] =
                nl_max_f32(nl_x[nl_p].sum + bias_, 0.0f);
        }
    }
}

/* ---- k7  max_pool2d.y: rows over r, s  (models/lenet5.yaml:15:7) */
struct k7_row {
    real *y_; /* [n][c][oh][ow], written */
    const real *x_; /* [n][c][2 * oh + r + x_from2][2 * ow + s + x_from3], read */
    real *activated_grad_first_; /* [n][c][oh][ow], written */
    nl_i64 n_n_, n_c_, n_oh_, n_ow_, y_by_n_, y_by_c_, y_by_oh_, x_by_n_, x_by_c_, x_stride2_, x_from2_, x_from3_;
    nl_i64 activated_grad_first_by_n_, activated_grad_first_by_c_, activated_grad_first_by_oh_;
};

NL_FN void k7_rows_over_r_s_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k7_row *const self = (const k7_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    real *__restrict__ const activated_grad_first_p_ = nl_global(self->activated_grad_first_);
    const nl_i64 n_n_ = self->n_n_, n_c_ = self->n_c_, n_oh_ = self->n_oh_, n_ow_ = self->n_ow_;
    const nl_i64 y_by_n_ = self->y_by_n_, y_by_c_ = self->y_by_c_, y_by_oh_ = self->y_by_oh_;
    const nl_i64 x_by_n_ = self->x_by_n_, x_by_c_ = self->x_by_c_, x_stride2_ = self->x_stride2_;
    const nl_i64 x_from2_ = self->x_from2_, x_from3_ = self->x_from3_;
    const nl_i64 activated_grad_first_by_n_ = self->activated_grad_first_by_n_;
    const nl_i64 activated_grad_first_by_c_ = self->activated_grad_first_by_c_;
    const nl_i64 activated_grad_first_by_oh_ = self->activated_grad_first_by_oh_;
    const nl_u32 c_inverse = nl_inverse(n_c_);
    const nl_u32 oh_inverse = nl_inverse(n_oh_);
    const nl_u32 ow_inverse = nl_inverse(n_ow_);
    nl_wait();
    const nl_i64 nl_end = nl_least(n_n_ * n_c_ * n_oh_ * n_ow_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + threadIdx.x; e < nl_end; e += blockDim.x) {
        nl_u64 rest = e;
        const nl_i64 ow = nl_take(rest, n_ow_, ow_inverse);
        const nl_i64 oh = nl_take(rest, n_oh_, oh_inverse);
        const nl_i64 c = nl_take(rest, n_c_, c_inverse);
        const nl_i64 n = rest;
        nl_few<real> nl_x_p_[2] = {};
        nl_each<2>([&](int r) {
            const nl_i64 s = 0;
            nl_x_p_[r] = nl_get_line<2, real>(&x_p_[n * x_by_n_ + c * x_by_c_ + (2 * oh + r + x_from2_) * x_stride2_
                + 2 * ow + s + x_from3_]);
        });
        real y_ = -NL_INF_F32;
        nl_each<2>([&](int r) {
            nl_each<2>([&](int s) {
                const real x_ = nl_x_p_[r].x[s];
                y_ = nl_max_f32(y_, x_);
            });
        });
        y_p_[n * y_by_n_ + c * y_by_c_ + oh * y_by_oh_ + ow] = y_;
        real activated_grad_first_ = NL_INF_F32;
        nl_each<2>([&](int r) {
            nl_each<2>([&](int s) {
                const real x_ = nl_x_p_[r].x[s];
                activated_grad_first_ = nl_min_f32(activated_grad_first_, x_ == y_ ? (real)(r * 2 + s) : 1e+09f);
            });
        });
        activated_grad_first_p_[n * activated_grad_first_by_n_ + c * activated_grad_first_by_c_
            + oh * activated_grad_first_by_oh_ + ow] = activated_grad_first_;
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k7_rows_over_r_s(NL_ARGUMENTS) {
    k7_rows_over_r_s_block(NL_TASK(k7_row));
}

/* ---- k8  dense1.activated: matmul  (models/lenet5.yaml:19:7) */
/* acc = sum over k of x * weight; activated = relu(acc + bias) */
struct k8_row {
    real *activated_; /* [n][o], written */
    const real *x_; /* [n][k], read */
    const real *weight_; /* [o][k], read */
    const real *bias_; /* [o], read */
    nl_i64 n_n_, n_o_, n_k_, activated_by_n_, x_by_n_, weight_by_o_, s_tile_, s_splits_, s_depth_;
};

NL_PART void k8_matmul_product(const k8_row *self, nl_i64 step, nl_product &nl_p) {
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

NL_PART void k8_matmul_store(const k8_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const activated_p_ = nl_global(self->activated_);
    const real *__restrict__ const bias_p_ = nl_global(self->bias_);
    const nl_i64 activated_by_n_ = self->activated_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 o = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        activated_p_[n * activated_by_n_ + o] = nl_max_f32(nl_s.at[nl_e] + bias_p_[o], 0.0f);
    }
}

/* ---- k9  logits.biased: matmul  (models/lenet5.yaml:21:7) */
/* acc = sum over k of x * weight; biased = acc + bias */
struct k9_row {
    real *biased_; /* [n][o], written */
    const real *x_; /* [n][k], read */
    const real *weight_; /* [o][k], read */
    const real *bias_; /* [o], read */
    nl_i64 n_n_, n_o_, n_k_, biased_by_n_, x_by_n_, weight_by_o_, s_tile_, s_splits_, s_depth_;
};

NL_PART void k9_matmul_product(const k9_row *self, nl_i64 step, nl_product &nl_p) {
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

NL_PART void k9_matmul_store(const k9_row *self, nl_i64 step, const nl_sums &nl_s) {
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

/* ---- k10  loss.largest: rows over o  (models/lenet5.yaml:29:10) */
struct k10_row {
    real *largest_; /* [n], written */
    const real *x_; /* [n][o], read */
    const nl_i32 *label_; /* [n], read */
    real *total_; /* [n], written */
    real *picked_; /* [n], written */
    const real *rows_grad_; /* [n], read */
    real *accuracy_first_; /* [n], written */
    const real *picked_grad_; /* [n], read */
    real *biased_grad_sum_; /* [n][o], written */
    nl_i64 n_n_, n_o_, x_by_n_, biased_grad_sum_by_n_;
};

NL_FN void k10_rows_over_o_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k10_row *const self = (const k10_row *)nl_t.self;
    real *__restrict__ const largest_p_ = nl_global(self->largest_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i32 *__restrict__ const label_p_ = nl_global(self->label_);
    real *__restrict__ const total_p_ = nl_global(self->total_);
    real *__restrict__ const picked_p_ = nl_global(self->picked_);
    const real *__restrict__ const rows_grad_p_ = nl_global(self->rows_grad_);
    real *__restrict__ const accuracy_first_p_ = nl_global(self->accuracy_first_);
    const real *__restrict__ const picked_grad_p_ = nl_global(self->picked_grad_);
    real *__restrict__ const biased_grad_sum_p_ = nl_global(self->biased_grad_sum_);
    const nl_i64 n_n_ = self->n_n_, n_o_ = self->n_o_, x_by_n_ = self->x_by_n_;
    const nl_i64 biased_grad_sum_by_n_ = self->biased_grad_sum_by_n_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_first = threadIdx.x & ((1u << nl_bits) - 1);
    const bool nl_wide = (n_o_ % 4 == 0) & (n_o_ >= 4 * nl_group) & nl_is_aligned<4>(x_p_) & (x_by_n_ % 4 == 0)
        & nl_is_aligned<4>(biased_grad_sum_p_) & (biased_grad_sum_by_n_ % 4 == 0);
    const nl_i64 nl_end = nl_least(n_n_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 n = nl_me.part * nl_t.chunk + (threadIdx.x >> nl_bits); n < nl_end; n += blockDim.x >> nl_bits) {
        const nl_i64 nl_terms = n_o_;
        real largest_ = -NL_INF_F32;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[n * x_by_n_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        largest_ = nl_max_f32(largest_, x_);
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    largest_ = nl_max_f32(largest_, x_p_[n * x_by_n_ + o]);
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
                    nl_joined<real, 1, nl_max_f32>({{largest_}}, -NL_INF_F32, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                largest_ = nl_all.of[0];
            }
        }
        if (nl_first == 0) largest_p_[n] = largest_;
        real total_ = 0.0f;
        real picked_ = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[n * x_by_n_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        const nl_i32 label_ = label_p_[n];
                        total_ += nl_exp_f32(x_ - largest_);
                        picked_ += o + nl_n == label_ ? x_ : 0.0f;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    const real x_ = x_p_[n * x_by_n_ + o];
                    const nl_i32 label_ = label_p_[n];
                    total_ += nl_exp_f32(x_ - largest_);
                    picked_ += o == label_ ? x_ : 0.0f;
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
                    nl_joined<real, 2, nl_sum_of<real>>({{total_, picked_}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                total_ = nl_all.of[0];
                picked_ = nl_all.of[1];
            }
        }
        real v0_ = rows_grad_p_[n] * (1.0f / total_);
        if (nl_first == 0) {
            total_p_[n] = total_;
            picked_p_[n] = picked_;
        }
        real accuracy_first_ = NL_INF_F32;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[n * x_by_n_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        accuracy_first_ = nl_min_f32(accuracy_first_, x_ == largest_ ? (real)(o + nl_n) : 1e+09f);
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    accuracy_first_ = nl_min_f32(accuracy_first_, x_p_[n * x_by_n_ + o] == largest_ ? (real)o : 1e+09f);
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
                    nl_joined<real, 1, nl_min_f32>({{accuracy_first_}}, NL_INF_F32, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                accuracy_first_ = nl_all.of[0];
            }
        }
        if (nl_first == 0) accuracy_first_p_[n] = accuracy_first_;
        if (nl_wide) {
#pragma unroll 1
            for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                const auto nl_x_p_ = nl_read<4>(&x_p_[n * x_by_n_ + o], true);
                struct {
                    nl_few<real, 4> x_p_;
                    nl_few<real, 4> biased_grad_sum_p_;
                } nl_x = {nl_as<real>(nl_x_p_), {}};
                const auto nl_point = [&](int nl_n) {
                    const real x_ = nl_x.x_p_.x[nl_n];
                    const nl_i32 label_ = label_p_[n];
                    const real picked_grad_ = picked_grad_p_[n];
                    nl_x.biased_grad_sum_p_.x[nl_n] =
                        (o + nl_n == label_ ? picked_grad_ : 0.0f) + v0_ * nl_exp_f32(x_ - largest_);
                };
                nl_each<4>(nl_point);
                nl_write(&biased_grad_sum_p_[n * biased_grad_sum_by_n_ + o], nl_x.biased_grad_sum_p_, true);
            }
        } else {
            struct nl_load_found {
                real x_;
                nl_i32 label_;
                real picked_grad_;
            };
            const auto nl_load = [&](nl_i64 o) {
                const real x_ = x_p_[n * x_by_n_ + o];
                const nl_i32 label_ = label_p_[n];
                const real picked_grad_ = picked_grad_p_[n];
                return nl_load_found{x_, label_, picked_grad_};
            };
            const auto nl_work = [&](nl_i64 o, const nl_load_found &nl_load_of) {
                real x_ = nl_load_of.x_;
                nl_i32 label_ = nl_load_of.label_;
                real picked_grad_ = nl_load_of.picked_grad_;
                biased_grad_sum_p_[n * biased_grad_sum_by_n_ + o] =
                    (o == label_ ? picked_grad_ : 0.0f) + v0_ * nl_exp_f32(x_ - largest_);
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
extern "C" __global__ void NL_BLOCK k10_rows_over_o(NL_ARGUMENTS) {
    k10_rows_over_o_block(NL_TASK(k10_row));
}

/* ---- k11  loss: sum over n  (models/lenet5.yaml:29:10) */
struct k11_row {
    real *loss_; /* written */
    const real *mask_; /* [n], read */
    const real *total_; /* [n], read */
    const real *largest_; /* [n], read */
    const real *picked_; /* [n], read */
    const real *count_; /* read */
    double *loss_after_; /* updated */
    nl_i64 n_n_;
};

NL_FN void k11_sum_over_n_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k11_row *const self = (const k11_row *)nl_t.self;
    real *__restrict__ const loss_p_ = nl_global(self->loss_);
    const real *__restrict__ const mask_p_ = nl_global(self->mask_);
    const real *__restrict__ const total_p_ = nl_global(self->total_);
    const real *__restrict__ const largest_p_ = nl_global(self->largest_);
    const real *__restrict__ const picked_p_ = nl_global(self->picked_);
    const real *__restrict__ const count_p_ = nl_global(self->count_);
    double *__restrict__ const loss_after_p_ = nl_global(self->loss_after_);
    const nl_i64 n_n_ = self->n_n_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(1ll, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end; e += blockDim.x >> nl_bits) {
        real acc = 0.0f;
        const nl_i64 nl_terms = n_n_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 n = nl_first;
        const auto nl_more = [&](int) {
            acc += (nl_log_f32(total_p_[n]) + largest_p_[n] - picked_p_[n]) * mask_p_[n];
            n += nl_group;
        };
#pragma unroll 1
        while (n + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
        while (n + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (n < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all =
                nl_joined<real, 1, nl_sum_of<real>>({{acc}}, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.of[0];
        }
        if (nl_lane == 0) {
            const real count_ = count_p_[0];
            loss_p_[0] = acc / count_;
            loss_after_p_[0] += (double)acc;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k11_sum_over_n(NL_ARGUMENTS) {
    k11_sum_over_n_block(NL_TASK(k11_row));
}

/* ---- k12  metric.accuracy.after: sum over n  (models/lenet5.yaml:29:10) */
struct k12_row {
    double *accuracy_after_; /* updated */
    const real *first_; /* [n], read */
    const nl_i32 *label_; /* [n], read */
    const real *mask_; /* [n], read */
    nl_i64 n_n_;
};

NL_FN void k12_sum_over_n_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k12_row *const self = (const k12_row *)nl_t.self;
    double *__restrict__ const accuracy_after_p_ = nl_global(self->accuracy_after_);
    const real *__restrict__ const first_p_ = nl_global(self->first_);
    const nl_i32 *__restrict__ const label_p_ = nl_global(self->label_);
    const real *__restrict__ const mask_p_ = nl_global(self->mask_);
    const nl_i64 n_n_ = self->n_n_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(1ll, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end; e += blockDim.x >> nl_bits) {
        real acc = 0.0f;
        const nl_i64 nl_terms = n_n_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 n = nl_first;
        const auto nl_more = [&](int) {
            const real first_ = first_p_[n];
            const nl_i32 label_ = label_p_[n];
            const real mask_ = mask_p_[n];
            acc += first_ == (real)label_ ? mask_ : 0.0f;
            n += nl_group;
        };
#pragma unroll 1
        while (n + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
        while (n + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (n < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all =
                nl_joined<real, 1, nl_sum_of<real>>({{acc}}, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.of[0];
        }
        if (nl_lane == 0) accuracy_after_p_[0] += (double)acc;
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k12_sum_over_n(NL_ARGUMENTS) {
    k12_sum_over_n_block(NL_TASK(k12_row));
}

/* ---- k13  dense1.bias.grad: sum over n  (models/lenet5.yaml:19:7) */
struct k13_row {
    real *bias_grad_; /* [o], written */
    const real *biased_grad_sum_; /* [n][o], read */
    nl_i64 n_o_, n_n_, biased_grad_sum_by_n_;
};

NL_FN void k13_sum_over_n_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k13_row *const self = (const k13_row *)nl_t.self;
    real *__restrict__ const bias_grad_p_ = nl_global(self->bias_grad_);
    const real *__restrict__ const biased_grad_sum_p_ = nl_global(self->biased_grad_sum_);
    const nl_i64 n_o_ = self->n_o_, n_n_ = self->n_n_, biased_grad_sum_by_n_ = self->biased_grad_sum_by_n_;
    nl_wait();
    const nl_u32 nl_splits = nl_t.group, nl_share = nl_me.part % nl_splits;
    const int nl_many = n_o_ % 4 == 0 ? 4 : 1;
    const nl_i64 nl_points = n_o_;
    const nl_u32 nl_lanes = nl_lanes_of(nl_points, nl_many);
    const nl_i64 nl_point = (nl_me.part / nl_splits * 32ll + threadIdx.x % nl_lanes) * nl_many;
    const nl_i64 o = nl_least(nl_point, nl_points - nl_many);
    const bool nl_even = (nl_many == 4) & nl_is_aligned<4>(biased_grad_sum_p_) & (biased_grad_sum_by_n_ % 4 == 0);
    real parts[] = {0.0f, 0.0f, 0.0f, 0.0f};
    const nl_i64 nl_terms = n_n_;
    const nl_u32 nl_rows = 256 / nl_lanes;
    const nl_u32 nl_first = nl_share * nl_rows + threadIdx.x / nl_lanes, nl_group = nl_splits * nl_rows;
    nl_i64 n = nl_first;
    const auto nl_more = [&](int) {
        const struct {
            nl_few<real, 4> biased_grad_sum_p_;
        } nl_x = {nl_get_aligned<real>(&biased_grad_sum_p_[n * biased_grad_sum_by_n_ + o])};
        nl_each<4>([&](int nl_n) {
            const real biased_grad_sum_ = nl_x.biased_grad_sum_p_.x[nl_n];
            parts[nl_n] += biased_grad_sum_;
        });
        n += nl_group;
    };
    const auto nl_apart = [&] {
        const struct {
            nl_few<real, 4> biased_grad_sum_p_;
        } nl_x = {nl_as<real>(nl_get<4>(&biased_grad_sum_p_[n * biased_grad_sum_by_n_ + o], nl_many, nl_even))};
        nl_each<4>([&](int nl_n) {
            const real biased_grad_sum_ = nl_x.biased_grad_sum_p_.x[nl_n];
            parts[nl_n] += biased_grad_sum_;
        });
        n += nl_group;
    };
    if (nl_even) {
#pragma unroll 1
        while (n + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
        while (n + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (n < nl_terms) nl_more(0);
    } else {
#pragma unroll 1
        while (n < nl_terms) nl_apart();
    }
    const auto nl_all = nl_joined_columns<real, 4, nl_sum_of<real>>({{parts[0], parts[1], parts[2], parts[3]}}, 0.0f,
        nl_me, nl_t.memory, nl_splits, nl_lanes);
    if (!nl_all.here || nl_point >= nl_points) return;
    const nl_i64 nl_first_own = o;
    nl_each<4>([&](int nl_n) {
        if (nl_n >= nl_many) return;
        const nl_i64 o = nl_first_own + nl_n;
        const real acc = nl_all.of[nl_n];
        bias_grad_p_[o] = acc;
    });
}
extern "C" __global__ void __launch_bounds__(256, 2) k13_sum_over_n(NL_ARGUMENTS) {
    k13_sum_over_n_block(NL_TASK(k13_row));
}

/* ---- k14  conv2.biased.grad.of_windows.flat: matmul  (models/lenet5.yaml:19:7) */
/* acc = sum over o of biased_grad_sum * weight; biased_grad = acc * (1 if activated > 0 else 0) */
struct k14_row {
    real *biased_grad_; /* [n][k], written */
    const real *biased_grad_sum_; /* [n][o], read */
    const real *weight_; /* [o][k], read */
    const real *activated_; /* [n][k], read */
    nl_i64 n_n_, n_k_, n_o_, biased_grad_by_n_, biased_grad_sum_by_n_, weight_by_o_, activated_by_n_, s_tile_;
    nl_i64 s_splits_, s_depth_;
};

NL_PART void k14_matmul_product(const k14_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const biased_grad_sum_p_ = nl_global(self->biased_grad_sum_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const nl_i64 n_n_ = self->n_n_, n_k_ = self->n_k_, n_o_ = self->n_o_;
    const nl_i64 biased_grad_sum_by_n_ = self->biased_grad_sum_by_n_, weight_by_o_ = self->weight_by_o_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = biased_grad_sum_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = biased_grad_sum_by_n_;
    nl_p.of[0].deep.steps[0].by = 1;
    nl_p.of[1].data = weight_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = 1;
    nl_p.of[1].deep.steps[0].by = weight_by_o_;
    nl_p.m = n_n_;
    nl_p.n = n_k_;
    nl_p.k = n_o_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k14_matmul_store(const k14_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const biased_grad_p_ = nl_global(self->biased_grad_);
    const real *__restrict__ const activated_p_ = nl_global(self->activated_);
    const nl_i64 biased_grad_by_n_ = self->biased_grad_by_n_, activated_by_n_ = self->activated_by_n_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 k = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 n = nl_slow;
        biased_grad_p_[n * biased_grad_by_n_ + k] =
            nl_s.at[nl_e] * (activated_p_[n * activated_by_n_ + k] > 0.0f ? 1.0f : 0.0f);
    }
}

/* ---- k15  dense1.weight.grad: matmul  (models/lenet5.yaml:19:7) */
/* weight_grad = sum over n of biased_grad_sum * x */
struct k15_row {
    real *weight_grad_; /* [o][k], written */
    const real *biased_grad_sum_; /* [n][o], read */
    const real *x_; /* [n][k], read */
    nl_i64 n_o_, n_k_, n_n_, weight_grad_by_o_, biased_grad_sum_by_n_, x_by_n_, s_tile_, s_splits_, s_depth_;
};

NL_PART void k15_matmul_product(const k15_row *self, nl_i64 step, nl_product &nl_p) {
    const real *__restrict__ const biased_grad_sum_p_ = nl_global(self->biased_grad_sum_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_o_ = self->n_o_, n_k_ = self->n_k_, n_n_ = self->n_n_;
    const nl_i64 biased_grad_sum_by_n_ = self->biased_grad_sum_by_n_, x_by_n_ = self->x_by_n_;
    const nl_i64 s_tile_ = self->s_tile_, s_splits_ = self->s_splits_, s_depth_ = self->s_depth_;
    nl_p.of[0].data = biased_grad_sum_p_;
    nl_p.of[0].first = 0;
    nl_p.of[0].side.steps[0].by = 1;
    nl_p.of[0].deep.steps[0].by = biased_grad_sum_by_n_;
    nl_p.of[1].data = x_p_;
    nl_p.of[1].first = 0;
    nl_p.of[1].side.steps[0].by = 1;
    nl_p.of[1].deep.steps[0].by = x_by_n_;
    nl_p.m = n_o_;
    nl_p.n = n_k_;
    nl_p.k = n_n_;
    nl_p.tile = (int)s_tile_;
    nl_p.splits = (int)s_splits_;
    nl_p.depth = s_depth_;
    nl_p.by_m = false;
}

NL_PART void k15_matmul_store(const k15_row *self, nl_i64 step, const nl_sums &nl_s) {
    real *__restrict__ const weight_grad_p_ = nl_global(self->weight_grad_);
    const nl_i64 weight_grad_by_o_ = self->weight_grad_by_o_;
    const nl_i64 nl_fast = nl_s.fast + (threadIdx.x & ((1u << nl_s.bits) - 1));
    if (nl_fast >= nl_s.fast_end) return;
    const nl_i64 k = nl_fast;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_s.size; nl_e += 256) {
        const nl_i64 nl_slow = nl_s.slow + (nl_e >> nl_s.bits);
        if (nl_slow >= nl_s.slow_end) return;
        const nl_i64 o = nl_slow;
        weight_grad_p_[o * weight_grad_by_o_ + k] = nl_s.at[nl_e];
    }
}

/* ---- k16  conv1.bias.grad: sum over n, i2, i3  (models/lenet5.yaml:14:7) */
struct k16_row {
    real *bias_grad_; /* [c], written */
    const real *biased_grad_of_windows_; /* [c][n][i], read */
    nl_i64 n_c_, n_n_, n_i_, biased_grad_of_windows_by_c_, biased_grad_of_windows_by_n_;
};

NL_FN void k16_sum_over_n_i2_i3_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k16_row *const self = (const k16_row *)nl_t.self;
    real *__restrict__ const bias_grad_p_ = nl_global(self->bias_grad_);
    const real *__restrict__ const biased_grad_of_windows_p_ = nl_global(self->biased_grad_of_windows_);
    const nl_i64 n_c_ = self->n_c_, n_n_ = self->n_n_, n_i_ = self->n_i_;
    const nl_i64 biased_grad_of_windows_by_c_ = self->biased_grad_of_windows_by_c_;
    const nl_i64 biased_grad_of_windows_by_n_ = self->biased_grad_of_windows_by_n_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(n_c_, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 c = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); c < nl_end; c += blockDim.x >> nl_bits) {
        real acc = 0.0f;
        const nl_i64 nl_terms = n_n_ * n_i_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 r = nl_first;
        nl_u64 at = nl_first, by = nl_group;
        nl_i64 i = nl_take(at, n_i_);
        const nl_i64 i_step = nl_take(by, n_i_);
        nl_i64 n = at;
        const nl_i64 n_step = by;
        const auto nl_more = [&](int) {
            const real biased_grad_of_windows_ =
                biased_grad_of_windows_p_[c * biased_grad_of_windows_by_c_ + n * biased_grad_of_windows_by_n_ + i];
            acc += biased_grad_of_windows_;
            r += nl_group;
            i += i_step;
            if (i >= n_i_) {
                i -= n_i_;
                n++;
            }
            n += n_step;
        };
#pragma unroll 1
        while (r + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
        while (r + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (r < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all =
                nl_joined<real, 1, nl_sum_of<real>>({{acc}}, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            acc = nl_all.of[0];
        }
        if (nl_lane == 0) bias_grad_p_[c] = acc;
    }
}
extern "C" __global__ void NL_BLOCK k16_sum_over_n_i2_i3(NL_ARGUMENTS) {
    k16_sum_over_n_i2_i3_block(NL_TASK(k16_row));
}

/* ---- k17  conv1.biased.grad.of_windows: direct conv  (models/lenet5.yaml:16:7) */
/* acc = sum over k, r, s of biased_grad * weight; biased_grad_of_windows = acc * (1 if x > 0 else 0) */
struct k17_row {
    real *biased_grad_of_windows_; /* [n][c][i2][i3], written */
    const real *biased_grad_; /* [n][k][i2 - r + biased_grad_from2][i3 - s + biased_grad_from3], read */
    const real *weight_; /* [c][k][r][s], read */
    const real *x_; /* [n][c][i2][i3], read */
    const real *places_; /* [], read */
    nl_i64 n_n_, n_c_, n_i2_, n_i3_, n_k_, n_r_, n_s_, biased_grad_of_windows_by_n_, biased_grad_of_windows_by_c_;
    nl_i64 biased_grad_of_windows_by_i2_, biased_grad_by_n_, biased_grad_by_k_, biased_grad_stride2_;
    nl_i64 biased_grad_from2_, biased_grad_extent2_, biased_grad_from3_, biased_grad_extent3_, weight_by_c_;
    nl_i64 weight_by_k_, weight_by_r_, x_by_n_, x_by_c_, x_by_i2_, s_strips_, s_rows_, s_samples_, s_blocks_;
    nl_i64 s_deep_, s_channels_;
};

NL_PART void k17_direct_conv_product(const k17_row *self, nl_i64 step, nl_convolution &nl_p) {
    const real *__restrict__ const biased_grad_p_ = nl_global(self->biased_grad_);
    const real *__restrict__ const weight_p_ = nl_global(self->weight_);
    const real *__restrict__ const places_p_ = nl_global(self->places_);
    const nl_i64 n_n_ = self->n_n_, n_c_ = self->n_c_, n_i2_ = self->n_i2_, n_i3_ = self->n_i3_, n_k_ = self->n_k_;
    const nl_i64 n_r_ = self->n_r_, n_s_ = self->n_s_, biased_grad_by_n_ = self->biased_grad_by_n_;
    const nl_i64 biased_grad_by_k_ = self->biased_grad_by_k_, biased_grad_stride2_ = self->biased_grad_stride2_;
    const nl_i64 biased_grad_from2_ = self->biased_grad_from2_, biased_grad_extent2_ = self->biased_grad_extent2_;
    const nl_i64 biased_grad_from3_ = self->biased_grad_from3_, biased_grad_extent3_ = self->biased_grad_extent3_;
    const nl_i64 weight_by_c_ = self->weight_by_c_, weight_by_k_ = self->weight_by_k_;
    const nl_i64 weight_by_r_ = self->weight_by_r_, s_strips_ = self->s_strips_, s_rows_ = self->s_rows_;
    const nl_i64 s_samples_ = self->s_samples_, s_blocks_ = self->s_blocks_, s_deep_ = self->s_deep_;
    const nl_i64 s_channels_ = self->s_channels_;
    nl_p.image = nl_image{biased_grad_p_, biased_grad_by_n_, (nl_i32)biased_grad_by_k_, (nl_i32)biased_grad_stride2_, 1,
        (nl_i32)n_n_, (nl_i32)n_k_, (nl_i32)biased_grad_extent2_, (nl_i32)biased_grad_extent3_,
        (nl_i32)(biased_grad_from2_ - (n_r_ - 1)), (nl_i32)(biased_grad_from3_ - (n_s_ - 1)), places_p_};
    nl_p.weights = weight_p_ + (n_r_ - 1) * weight_by_r_ + (n_s_ - 1);
    nl_p.by_o = (nl_i32)weight_by_c_;
    nl_p.by_c = (nl_i32)weight_by_k_;
    nl_p.by_r = -(nl_i32)weight_by_r_;
    nl_p.by_s = -1;
    nl_p.outs = (nl_i32)n_c_;
    nl_p.rows = (nl_i32)n_i2_;
    nl_p.cols = (nl_i32)n_i3_;
    nl_p.taps = (nl_i32)n_r_;
    nl_p.step = 1;
    nl_p.tap = 1;
    nl_p.strips = (nl_i32)s_strips_;
    nl_p.height = (nl_i32)s_rows_;
    nl_p.samples = (nl_i32)s_samples_;
    nl_p.blocks = (nl_i32)s_blocks_;
    nl_p.deep = (nl_i32)s_deep_;
    nl_p.channels = (nl_i32)s_channels_;
}

NL_PART void k17_direct_conv_store(const k17_row *self, nl_i64 step, const nl_strips &nl_s) {
    real *__restrict__ const biased_grad_of_windows_p_ = nl_global(self->biased_grad_of_windows_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 biased_grad_of_windows_by_n_ = self->biased_grad_of_windows_by_n_;
    const nl_i64 biased_grad_of_windows_by_c_ = self->biased_grad_of_windows_by_c_;
    const nl_i64 biased_grad_of_windows_by_i2_ = self->biased_grad_of_windows_by_i2_, x_by_n_ = self->x_by_n_;
    const nl_i64 x_by_c_ = self->x_by_c_, x_by_i2_ = self->x_by_i2_;
    struct nl_read {
        real sum;
        real x_;
    };
    const nl_strips nl_own = nl_s;
    const nl_i64 n = nl_own.n, i2 = nl_own.i;
    const real *nl_at = nl_in_shared(nl_own.at);
#pragma unroll 1
    for (nl_i64 c = nl_own.o; c < nl_own.o_end; c += nl_own.by_o, nl_at += nl_own.far) {
        nl_read nl_x[4];
#pragma unroll
        for (int nl_p = 0; nl_p < 4; nl_p++) {
            const int nl_q = nl_own.q + ((nl_p + nl_own.turn) & 3) * nl_own.by_q;
            const nl_i64 i3 = nl_own.j + nl_q;
            if (i3 < nl_own.j_end)
                nl_x[nl_p] = nl_read{nl_at[nl_q], x_p_[n * x_by_n_ + c * x_by_c_ + i2 * x_by_i2_ + i3]};
        }
#pragma unroll
        for (int nl_p = 0; nl_p < 4; nl_p++) {
            const nl_i64 i3 = nl_own.j + nl_own.q + ((nl_p + nl_own.turn) & 3) * nl_own.by_q;
            if (i3 >= nl_own.j_end) continue;
            const real x_ = nl_x[nl_p].x_;
            biased_grad_of_windows_p_[n * biased_grad_of_windows_by_n_ + c * biased_grad_of_windows_by_c_
                + i2 * biased_grad_of_windows_by_i2_ + i3] = nl_x[nl_p].sum * (x_ > 0.0f ? 1.0f : 0.0f);
        }
    }
}

/* ---- k18  conv1.weight.grad: direct conv weights  (models/lenet5.yaml:14:7) */
/* weight_grad = sum over n, oh, ow of biased_grad * x */
struct k18_row {
    real *weight_grad_; /* [k][c][r][s], written */
    const real *biased_grad_; /* [k][n][oh][ow], read */
    const real *x_; /* [c][n][oh + r + x_from2][ow + s + x_from3], read */
    const real *places_; /* [], read */
    nl_i64 n_k_, n_c_, n_r_, n_n_, n_oh_, n_ow_, weight_grad_by_k_, weight_grad_by_c_, weight_grad_by_r_;
    nl_i64 biased_grad_by_k_, biased_grad_by_n_, biased_grad_by_oh_, x_by_c_, x_by_n_, x_stride2_, x_from2_;
    nl_i64 x_extent2_, x_from3_, x_extent3_, s_blocks_, s_channels_, s_rows_, s_shares_, s_splits_;
};

NL_PART void k18_direct_conv_weights_product(const k18_row *self, nl_i64 step, nl_weights &nl_p) {
    const real *__restrict__ const biased_grad_p_ = nl_global(self->biased_grad_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const real *__restrict__ const places_p_ = nl_global(self->places_);
    const nl_i64 n_k_ = self->n_k_, n_c_ = self->n_c_, n_r_ = self->n_r_, n_n_ = self->n_n_, n_oh_ = self->n_oh_;
    const nl_i64 n_ow_ = self->n_ow_, biased_grad_by_k_ = self->biased_grad_by_k_;
    const nl_i64 biased_grad_by_n_ = self->biased_grad_by_n_, biased_grad_by_oh_ = self->biased_grad_by_oh_;
    const nl_i64 x_by_c_ = self->x_by_c_, x_by_n_ = self->x_by_n_, x_stride2_ = self->x_stride2_;
    const nl_i64 x_from2_ = self->x_from2_, x_extent2_ = self->x_extent2_, x_from3_ = self->x_from3_;
    const nl_i64 x_extent3_ = self->x_extent3_, s_blocks_ = self->s_blocks_, s_channels_ = self->s_channels_;
    const nl_i64 s_rows_ = self->s_rows_, s_shares_ = self->s_shares_, s_splits_ = self->s_splits_;
    nl_p.image = nl_image{x_p_, x_by_n_, (nl_i32)x_by_c_, (nl_i32)x_stride2_, 1, (nl_i32)n_n_, (nl_i32)n_c_,
        (nl_i32)x_extent2_, (nl_i32)x_extent3_, (nl_i32)x_from2_, (nl_i32)x_from3_};
    nl_p.out = nl_image{biased_grad_p_, biased_grad_by_n_, (nl_i32)biased_grad_by_k_, (nl_i32)biased_grad_by_oh_, 1,
        (nl_i32)n_n_, (nl_i32)n_k_, (nl_i32)n_oh_, (nl_i32)n_ow_, 0, 0, places_p_};
    nl_p.taps = (nl_i32)n_r_;
    nl_p.step = 1;
    nl_p.tap = 1;
    nl_p.blocks = (nl_i32)s_blocks_;
    nl_p.channels = (nl_i32)s_channels_;
    nl_p.height = (nl_i32)s_rows_;
    nl_p.shares = (nl_i32)s_shares_;
    nl_p.splits = (nl_i32)s_splits_;
}

NL_PART void k18_direct_conv_weights_store(const k18_row *self, nl_i64 step, const nl_filters &nl_s) {
    real *__restrict__ const weight_grad_p_ = nl_global(self->weight_grad_);
    const nl_i64 weight_grad_by_k_ = self->weight_grad_by_k_, weight_grad_by_c_ = self->weight_grad_by_c_;
    const nl_i64 weight_grad_by_r_ = self->weight_grad_by_r_;
    const nl_filters nl_own = nl_s;
#pragma unroll 1
    for (int nl_e = threadIdx.x; nl_e < nl_own.size; nl_e += blockDim.x) {
        const int nl_tap = nl_e % 5, nl_line = nl_e / 5;
        const int nl_row = nl_line % nl_own.taps, nl_filter = nl_line / nl_own.taps;
        const int nl_channel = nl_filter % nl_own.stride, nl_out = nl_filter / nl_own.stride;
        if (nl_out >= nl_own.outs || nl_channel >= nl_own.channels) continue;
        const nl_i64 k = nl_own.o + nl_out, c = nl_own.c + nl_channel;
        const nl_i64 r = nl_row, s = nl_tap;
        weight_grad_p_[k * weight_grad_by_k_ + c * weight_grad_by_c_ + r * weight_grad_by_r_ + s] = nl_own.at[nl_e];
    }
}

/* ---- k19  conv1.weight: optimizer update  (library/optimizers/adam.yaml:4:5) */
struct k19_row {
    real *param_; /* [i], updated */
    const real *gradient_; /* [i], read */
    real *m_; /* [i], updated */
    real *v_; /* [i], updated */
    nl_i64 n_;
    alignas(8) real learning_rate_, beta1_, beta2_, epsilon_;
};

NL_FN void k19_optimizer_update_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k19_row *const self = (const k19_row *)nl_t.self;
    const nl_i64 step = nl_t.step;
    real *__restrict__ const param_p_ = nl_global(self->param_);
    const real *__restrict__ const gradient_p_ = nl_global(self->gradient_);
    real *__restrict__ const m_p_ = nl_global(self->m_);
    real *__restrict__ const v_p_ = nl_global(self->v_);
    const nl_i64 n_ = self->n_;
    const real learning_rate_ = self->learning_rate_, beta1_ = self->beta1_, beta2_ = self->beta2_;
    const real epsilon_ = self->epsilon_;
    const real beta1_to_step = nl_pow_f32(beta1_, (real)step);
    const real beta2_to_step = nl_pow_f32(beta2_, (real)step);
    nl_wait();
    const bool nl_every = (nl_t.chunk >= 4 * blockDim.x) & nl_is_aligned<4>(param_p_) & nl_is_aligned<4>(gradient_p_)
        & nl_is_aligned<4>(m_p_) & nl_is_aligned<4>(v_p_);
    const nl_i64 nl_end = nl_least(n_, (nl_me.part + 1ll) * nl_t.chunk);
    nl_i64 nl_from = nl_me.part * nl_t.chunk;
#pragma unroll 1
    for (bool nl_wide = nl_every; true; nl_wide = false) {
        const int nl_width = nl_wide ? 4 : 1;
        const nl_i64 nl_to = nl_end - (nl_end - nl_from) % nl_width;
#pragma unroll 1
        for (nl_i64 i = nl_from + nl_width * threadIdx.x; i < nl_to; i += nl_width * blockDim.x) {
            const auto nl_param_p_ = nl_read<4>(&param_p_[i], nl_wide);
            const auto nl_gradient_p_ = nl_read<4>(&gradient_p_[i], nl_wide);
            const auto nl_m_p_ = nl_read<4>(&m_p_[i], nl_wide);
            const auto nl_v_p_ = nl_read<4>(&v_p_[i], nl_wide);
            struct {
                nl_few<real, 4> param_p_;
                nl_few<real, 4> gradient_p_;
                nl_few<real, 4> m_p_;
                nl_few<real, 4> v_p_;
            } nl_x = {nl_as<real>(nl_param_p_), nl_as<real>(nl_gradient_p_), nl_as<real>(nl_m_p_),
                nl_as<real>(nl_v_p_)};
            const auto nl_point = [&](int nl_n) {
                const real gradient_ = nl_x.gradient_p_.x[nl_n];
                real m_ = nl_x.m_p_.x[nl_n];
                /* adam.yaml:8  m = beta1 * m + (1 - beta1) * gradient */
                m_ = beta1_ * m_ + (1.0f - beta1_) * gradient_;
                real v_ = nl_x.v_p_.x[nl_n];
                /* adam.yaml:9  v = beta2 * v + (1 - beta2) * gradient ** 2 */
                v_ = beta2_ * v_ + (1.0f - beta2_) * (gradient_ * gradient_);
                /* adam.yaml:10  m_hat = m / (1 - beta1 ** step) */
                real m_hat_ = m_ / (1.0f - beta1_to_step);
                /* adam.yaml:11  v_hat = v / (1 - beta2 ** step) */
                real v_hat_ = v_ / (1.0f - beta2_to_step);
                real param_ = nl_x.param_p_.x[nl_n];
                /* adam.yaml:12  param = param - learning_rate * m_hat / (sqrt(v_hat) + epsilon) */
                nl_x.param_p_.x[nl_n] = param_ - learning_rate_ * m_hat_ / (nl_sqrt_f32(v_hat_) + epsilon_);
                nl_x.m_p_.x[nl_n] = m_;
                nl_x.v_p_.x[nl_n] = v_;
            };
            if (!nl_wide) nl_point(0);
            else nl_each<4>(nl_point);
            nl_write(&param_p_[i], nl_x.param_p_, nl_wide);
            nl_write(&m_p_[i], nl_x.m_p_, nl_wide);
            nl_write(&v_p_[i], nl_x.v_p_, nl_wide);
        }
        if (nl_to == nl_end) break;
        nl_from = nl_to;
    }
}
extern "C" __global__ void __launch_bounds__(256, 3) k19_optimizer_update(NL_ARGUMENTS) {
    k19_optimizer_update_block(NL_TASK(k19_row));
}

/* ---- k20  batch.count: sum over n  (models/lenet5.yaml:25:5) */
struct k20_row {
    real *count_; /* written */
    const real *mask_; /* [n], read */
    double *count_after_; /* updated */
    nl_i64 n_n_;
};

NL_FN void k20_sum_over_n_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k20_row *const self = (const k20_row *)nl_t.self;
    real *__restrict__ const count_p_ = nl_global(self->count_);
    const real *__restrict__ const mask_p_ = nl_global(self->mask_);
    double *__restrict__ const count_after_p_ = nl_global(self->count_after_);
    const nl_i64 n_n_ = self->n_n_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_splits = nl_group >> nl_bits;
    const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;
    const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);
    const nl_i64 nl_end = nl_least(1ll, (nl_part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); e < nl_end; e += blockDim.x >> nl_bits) {
        real count_ = 0.0f;
        const nl_i64 nl_terms = n_n_;
        const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;
        nl_i64 n = nl_first;
        const auto nl_more = [&](int) {
            count_ += mask_p_[n];
            n += nl_group;
        };
#pragma unroll 1
        while (n + 7ll * nl_group < nl_terms) nl_each<8>(nl_more);
#pragma unroll 1
        while (n + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);
#pragma unroll 1
        while (n < nl_terms) nl_more(0);
        if (nl_are_many(nl_group)) {
            const auto nl_all =
                nl_joined<real, 1, nl_sum_of<real>>({{count_}}, 0.0f, nl_me, nl_t.memory, nl_bits, nl_splits);
            if (!nl_all.here) return;
            count_ = nl_all.of[0];
        }
        if (nl_lane == 0) {
            count_p_[0] = count_;
            count_after_p_[0] += (double)count_;
        }
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k20_sum_over_n(NL_ARGUMENTS) {
    k20_sum_over_n_block(NL_TASK(k20_row));
}

/* ---- k21  max_pool2d.y: maximum over r, s  (models/lenet5.yaml:15:7) */
struct k21_row {
    real *y_; /* [n][c][oh][ow], written */
    const real *x_; /* [n][c][2 * oh + r + x_from2][2 * ow + s + x_from3], read */
    nl_i64 n_n_, n_c_, n_oh_, n_ow_, y_by_n_, y_by_c_, y_by_oh_, x_by_n_, x_by_c_, x_stride2_, x_from2_, x_from3_;
};

NL_FN void k21_maximum_over_r_s_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k21_row *const self = (const k21_row *)nl_t.self;
    real *__restrict__ const y_p_ = nl_global(self->y_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i64 n_n_ = self->n_n_, n_c_ = self->n_c_, n_oh_ = self->n_oh_, n_ow_ = self->n_ow_;
    const nl_i64 y_by_n_ = self->y_by_n_, y_by_c_ = self->y_by_c_, y_by_oh_ = self->y_by_oh_;
    const nl_i64 x_by_n_ = self->x_by_n_, x_by_c_ = self->x_by_c_, x_stride2_ = self->x_stride2_;
    const nl_i64 x_from2_ = self->x_from2_, x_from3_ = self->x_from3_;
    const nl_u32 c_inverse = nl_inverse(n_c_);
    const nl_u32 oh_inverse = nl_inverse(n_oh_);
    const nl_u32 ow_inverse = nl_inverse(n_ow_);
    nl_wait();
    const bool nl_wide = (nl_t.chunk >= 2 * blockDim.x) & (n_ow_ % 2 == 0) & nl_is_aligned<2>(y_p_) & (y_by_n_ % 2 == 0)
        & (y_by_c_ % 2 == 0) & (y_by_oh_ % 2 == 0);
    const int nl_width = nl_wide ? 2 : 1;
    const nl_i64 nl_end = nl_least(n_n_ * n_c_ * n_oh_ * n_ow_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 e = nl_me.part * nl_t.chunk + nl_width * threadIdx.x; e < nl_end; e += nl_width * blockDim.x) {
        nl_u64 rest = e;
        const nl_i64 ow = nl_take(rest, n_ow_, ow_inverse);
        const nl_i64 oh = nl_take(rest, n_oh_, oh_inverse);
        const nl_i64 c = nl_take(rest, n_c_, c_inverse);
        const nl_i64 n = rest;
        struct {
            nl_few<real, 2> y_p_;
        } nl_x = {{}};
        const auto nl_point = [&](int nl_n) {
            real acc = -NL_INF_F32;
            nl_each<2>([&](int r) {
                nl_each<2>([&](int s) {
                    const real x_ = x_p_[n * x_by_n_ + c * x_by_c_ + (2 * oh + r + x_from2_) * x_stride2_
                        + 2 * (ow + nl_n) + s + x_from3_];
                    acc = nl_max_f32(acc, x_);
                });
            });
            nl_x.y_p_.x[nl_n] = acc;
        };
        if (!nl_wide) nl_point(0);
        else nl_each<2>(nl_point);
        nl_write(&y_p_[n * y_by_n_ + c * y_by_c_ + oh * y_by_oh_ + ow], nl_x.y_p_, nl_wide);
    }
}
extern "C" __global__ void __launch_bounds__(256, 4) k21_maximum_over_r_s(NL_ARGUMENTS) {
    k21_maximum_over_r_s_block(NL_TASK(k21_row));
}

/* ---- k22  loss.largest: rows over o  (models/lenet5.yaml:29:10) */
struct k22_row {
    real *largest_; /* [n], written */
    const real *x_; /* [n][o], read */
    const nl_i32 *label_; /* [n], read */
    real *total_; /* [n], written */
    real *picked_; /* [n], written */
    real *accuracy_first_; /* [n], written */
    nl_i64 n_n_, n_o_, x_by_n_;
};

NL_FN void k22_rows_over_o_block(const nl_task &nl_t) {
    const nl_job &nl_me = nl_t.me;
    const k22_row *const self = (const k22_row *)nl_t.self;
    real *__restrict__ const largest_p_ = nl_global(self->largest_);
    const real *__restrict__ const x_p_ = nl_global(self->x_);
    const nl_i32 *__restrict__ const label_p_ = nl_global(self->label_);
    real *__restrict__ const total_p_ = nl_global(self->total_);
    real *__restrict__ const picked_p_ = nl_global(self->picked_);
    real *__restrict__ const accuracy_first_p_ = nl_global(self->accuracy_first_);
    const nl_i64 n_n_ = self->n_n_, n_o_ = self->n_o_, x_by_n_ = self->x_by_n_;
    nl_wait();
    const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);
    const nl_u32 nl_first = threadIdx.x & ((1u << nl_bits) - 1);
    const bool nl_wide = (n_o_ % 4 == 0) & (n_o_ >= 4 * nl_group) & nl_is_aligned<4>(x_p_) & (x_by_n_ % 4 == 0);
    const nl_i64 nl_end = nl_least(n_n_, (nl_me.part + 1ll) * nl_t.chunk);
#pragma unroll 1
    for (nl_i64 n = nl_me.part * nl_t.chunk + (threadIdx.x >> nl_bits); n < nl_end; n += blockDim.x >> nl_bits) {
        const nl_i64 nl_terms = n_o_;
        real largest_ = -NL_INF_F32;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[n * x_by_n_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        largest_ = nl_max_f32(largest_, x_);
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    largest_ = nl_max_f32(largest_, x_p_[n * x_by_n_ + o]);
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
                    nl_joined<real, 1, nl_max_f32>({{largest_}}, -NL_INF_F32, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                largest_ = nl_all.of[0];
            }
        }
        if (nl_first == 0) largest_p_[n] = largest_;
        real total_ = 0.0f;
        real picked_ = 0.0f;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[n * x_by_n_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        const nl_i32 label_ = label_p_[n];
                        total_ += nl_exp_f32(x_ - largest_);
                        picked_ += o + nl_n == label_ ? x_ : 0.0f;
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    const real x_ = x_p_[n * x_by_n_ + o];
                    const nl_i32 label_ = label_p_[n];
                    total_ += nl_exp_f32(x_ - largest_);
                    picked_ += o == label_ ? x_ : 0.0f;
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
                    nl_joined<real, 2, nl_sum_of<real>>({{total_, picked_}}, 0.0f, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                total_ = nl_all.of[0];
                picked_ = nl_all.of[1];
            }
        }
        if (nl_first == 0) {
            total_p_[n] = total_;
            picked_p_[n] = picked_;
        }
        real accuracy_first_ = NL_INF_F32;
        {
            if (nl_wide) {
#pragma unroll 1
                for (nl_i64 o = 4 * nl_first; o < nl_terms; o += 4 * nl_group) {
                    const auto nl_x_p_ = nl_read<4>(&x_p_[n * x_by_n_ + o], true);
                    struct {
                        nl_few<real, 4> x_p_;
                    } nl_x = {nl_as<real>(nl_x_p_)};
                    const auto nl_point = [&](int nl_n) {
                        const real x_ = nl_x.x_p_.x[nl_n];
                        accuracy_first_ = nl_min_f32(accuracy_first_, x_ == largest_ ? (real)(o + nl_n) : 1e+09f);
                    };
                    nl_each<4>(nl_point);
                }
            } else {
                nl_i64 o = nl_first;
                const auto nl_more = [&](int) {
                    accuracy_first_ = nl_min_f32(accuracy_first_, x_p_[n * x_by_n_ + o] == largest_ ? (real)o : 1e+09f);
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
                    nl_joined<real, 1, nl_min_f32>({{accuracy_first_}}, NL_INF_F32, nl_me, nl_t.memory, nl_bits, 1);
                const auto nl_all = nl_first_of_warp(nl_found);
                accuracy_first_ = nl_all.of[0];
            }
        }
        if (nl_first == 0) accuracy_first_p_[n] = accuracy_first_;
    }
}
extern "C" __global__ void NL_BLOCK k22_rows_over_o(NL_ARGUMENTS) {
    k22_rows_over_o_block(NL_TASK(k22_row));
}


/* ---- direct_conv_5_step_1_tap_1 (nl_group says for which): k6 */
extern "C" __global__ void __launch_bounds__(256, 3) direct_conv_5_step_1_tap_1(NL_ARGUMENTS) {
    __shared__ nl_convolution nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 6:
            k6_direct_conv_product((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_strips nl_s;
    if (!nl_direct<8, 5, 1, 1>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 6:
        k6_direct_conv_store((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- direct_conv_5_step_1_tap_1_narrow (nl_group says for which): k6 */
extern "C" __global__ void __launch_bounds__(256, 3) direct_conv_5_step_1_tap_1_narrow(NL_ARGUMENTS) {
    __shared__ nl_convolution nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 6:
            k6_direct_conv_product((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_strips nl_s;
    if (!nl_direct<4, 5, 1, 1>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 6:
        k6_direct_conv_store((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- direct_conv_5_step_1_tap_1_six (nl_group says for which): k6 */
extern "C" __global__ void __launch_bounds__(256, 3) direct_conv_5_step_1_tap_1_six(NL_ARGUMENTS) {
    __shared__ nl_convolution nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 6:
            k6_direct_conv_product((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_strips nl_s;
    if (!nl_direct<6, 5, 1, 1>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 6:
        k6_direct_conv_store((const k6_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- matmul (nl_group says for which): k8, k9, k14, k15 */
extern "C" __global__ void __launch_bounds__(256, 3) matmul(NL_ARGUMENTS) {
    __shared__ nl_product nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 8:
            k8_matmul_product((const k8_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 9:
            k9_matmul_product((const k9_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 14:
            k14_matmul_product((const k14_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        case 15:
            k15_matmul_product((const k15_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_sums nl_s;
    if (!nl_matmul(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 8:
        k8_matmul_store((const k8_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 9:
        k9_matmul_store((const k9_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 14:
        k14_matmul_store((const k14_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    case 15:
        k15_matmul_store((const k15_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- direct_conv_5_step_1_tap_1_of_2_by_2 (nl_group says for which): k17 */
extern "C" __global__ void __launch_bounds__(256, 3) direct_conv_5_step_1_tap_1_of_2_by_2(NL_ARGUMENTS) {
    __shared__ nl_convolution nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 17:
            k17_direct_conv_product((const k17_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_strips nl_s;
    if (!nl_direct<8, 5, 1, 1, 2, 2>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 17:
        k17_direct_conv_store((const k17_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- direct_conv_5_step_1_tap_1_of_2_by_2_narrow (nl_group says for which): k17 */
extern "C" __global__ void __launch_bounds__(256, 3) direct_conv_5_step_1_tap_1_of_2_by_2_narrow(NL_ARGUMENTS) {
    __shared__ nl_convolution nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 17:
            k17_direct_conv_product((const k17_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_strips nl_s;
    if (!nl_direct<4, 5, 1, 1, 2, 2>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 17:
        k17_direct_conv_store((const k17_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- direct_conv_5_step_1_tap_1_of_2_by_2_six (nl_group says for which): k17 */
extern "C" __global__ void __launch_bounds__(256, 3) direct_conv_5_step_1_tap_1_of_2_by_2_six(NL_ARGUMENTS) {
    __shared__ nl_convolution nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 17:
            k17_direct_conv_product((const k17_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_strips nl_s;
    if (!nl_direct<6, 5, 1, 1, 2, 2>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 17:
        k17_direct_conv_store((const k17_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}

/* ---- direct_conv_weights_5_step_1_tap_1_of_2_by_2 (nl_group says for which): k18 */
extern "C" __global__ void __launch_bounds__(256, 3) direct_conv_weights_5_step_1_tap_1_of_2_by_2(NL_ARGUMENTS) {
    __shared__ nl_weights nl_p;
    const nl_task nl_t = NL_TASK(char);
    if (threadIdx.x == 0) {
        switch (nl_group) {
        case 18:
            k18_direct_conv_weights_product((const k18_row *)nl_rows + nl_t.me.row, nl_t.step, nl_p);
            break;
        }
    }
    __syncthreads();
    nl_wait();
    nl_filters nl_s;
    if (!nl_direct_weights<8, 5, 1, 1, 2, 2>(nl_t, nl_p, nl_s)) return;
    switch (nl_group) {
    case 18:
        k18_direct_conv_weights_store((const k18_row *)nl_rows + nl_t.me.row, nl_t.step, nl_s);
        break;
    }
}
