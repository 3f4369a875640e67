/* draw.glsl - what the shaders of draw share: the arithmetic of dev/draw.h with the same bits, keys
 * and bins of logits, sums of a workgroup. Weights are integers, so the order of additions does not
 * matter. Doubles, which many GPUs lack, and division, which Vulkan does not round to nearest, are
 * computed with integers. */
const int WG = 256;
const int CHUNK = 2048; /* logits that a workgroup processes at a time */
const int BINS = 1024;  /* the last one has all lower logits */
const int FINE = 12;    /* down to this distance bins are 1/64 wide, beyond it 1/4 */
const int FINE_BINS = 64, COARSE_BINS = 4;
const int PICKS = 2048;                         /* maximum number of logits to sort */
const int DONE = 0, NEAR = 1, CUT = 2, WIDE = 3; /* draw_row.comp */
layout(local_size_x = 256) in;

/* ft_draw, ft_edit, ft_pick and ft_drawn of dev/draw.h. */
struct Draw {
    int row, to;
    float temperature;
    int top_k;
    float top_p, log_min_p, repeat, frequency, presence;
    uint64_t seed, position;
    int mask, edit, n_edit, list;
};

struct Edit {
    int id, count;
    float bias;
};

struct Pick {
    int id;
    float x;
};

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Draws { Draw v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Edits { Edit v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Drawn {
    int id;
    float x, max;
    int n;
    uint64_t sum;
    Pick top[32];
};
const int DRAWN_BYTES = 280;

/* State of a row's draw. */
struct State {
    uint64_t best;   /* the largest logit: its key, then its complemented index */
    uint64_t sum;    /* of all weights */
    uint64_t above;  /* sum of the weights in bins before the first collected one */
    uint64_t goal;   /* target of top_p, unless top_k is set */
    uint64_t cut;    /* WIDE: the last candidate, in the form of `best` */
    int first, last; /* bins that are collected */
    int found, way;
};

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer States { State v[]; };

layout(push_constant, scalar) uniform Push {
    Mat x;
    ADDRESS y, batch;
    ADDRESS row;         /* State of each row */
    ADDRESS best;        /* [T][blocks]: the largest logit of each workgroup's chunks */
    ADDRESS mass, count; /* [T][blocks][BINS] */
    ADDRESS pick;        /* [T][PICKS] */
    ADDRESS kept;        /* [T][n]: sum of the weights that remain after filtering */
    int n, blocks;       /* chunks of a row; workgroups that share them */
} a;

Draw draw_of(int t)
{
    return Draws(Batch(a.batch).draw).v[t];
}

Drawn drawn_of(Draw d)
{
    return Drawn(a.y + uint64_t(int64_t(d.to) * DRAWN_BYTES));
}

U64 at64(ADDRESS base, int i)
{
    return U64(base + 8ul * uint64_t(i));
}

bool is_greedy(Draw d)
{
    return d.temperature <= 0.0 && d.list < 0;
}

void write_id(Draw d, int id)
{
    Drawn y = drawn_of(d);
    y.id = id;
    if (id >= 0) y.x = head(a.x, d.row, 0).v[id];
}

/* ---- dev/draw.h ---- */

float mul_add(float p, float q, float c)
{
    precise float m = p * q;
    precise float s = m + c;
    return s;
}

/* p / q to nearest: the quotient of the mantissas, estimated and corrected. */
float divide(float p, float q)
{
    const uint up = floatBitsToUint(p), uq = floatBitsToUint(q);
    const int ep = int(up >> 23 & 255u), eq = int(uq >> 23 & 255u);
    if (ep == 0 || ep == 255 || eq == 0 || eq == 255) return p / q;
    const uint mp = (up & 0x7fffffu) | 0x800000u, mq = (uq & 0x7fffffu) | 0x800000u;
    const int up_by = mp < mq ? 25 : 24; /* 25 bits: the last one is half a unit */
    uint r = uint(float(mp) / float(mq) * float(1 << up_by));
    int64_t rest = (int64_t(mp) << up_by) - int64_t(r) * int64_t(mq);
    for (; rest < 0l; r--) rest += int64_t(mq);
    for (; rest >= int64_t(mq); r++) rest -= int64_t(mq);
    uint m = r >> 1;
    if ((r & 1u) != 0u && (rest != 0l || (m & 1u) != 0u)) m++;
    const int e = ep - eq + 127 + 24 - up_by + int(m >> 24);
    if (e <= 0 || e >= 255) return p / q;
    return uintBitsToFloat((up ^ uq) & 0x80000000u | uint(e) << 23 | m & 0x7fffffu);
}

/* e^x for x <= 0; 0 from about -87 down. */
float exp_neg(float x)
{
    if (!(x > -87.0)) return 0.0;
    precise float n = mul_add(x, 1.44269504, 12582912.0) - 12582912.0;
    const float r = mul_add(n, -1.42860677e-6, mul_add(n, -0.693145752, x));
    float y = mul_add(1.38888889e-3, r, 8.33333333e-3);
    y = mul_add(y, r, 4.16666667e-2);
    y = mul_add(y, r, 1.66666667e-1);
    y = mul_add(y, r, 0.5);
    y = mul_add(y, r, 1.0);
    y = mul_add(y, r, 1.0);
    precise float p = y * uintBitsToFloat(uint(int(n) + 127) << 23);
    return p;
}

/* Weight of a logit that is `below` (<= 0) the largest, in units of 2^-40. */
uint64_t weigh(float below)
{
    const uint u = floatBitsToUint(exp_neg(below));
    const int e = int(u >> 23) - 127 + 40 - 23;
    const uint64_t m = uint64_t((u & 0x7fffffu) | 0x800000u);
    return e >= 0 ? m << e : e > -24 ? m >> -e : 0ul;
}

float logit_finite(float x)
{
    const uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return -INF;
    return u == 0x7f800000u ? uintBitsToFloat(0x7f7fffffu) : x;
}

float logit_edited(float x, Edit e, Draw d)
{
    if (e.bias != 0.0) {
        precise float y = x + e.bias;
        x = logit_finite(y);
    }
    if (e.count == 0) return x;
    precise float y = x <= 0.0 ? x * d.repeat : divide(x, d.repeat);
    precise float z = y - mul_add(float(e.count), d.frequency, d.presence);
    return z;
}

float logit_tempered(float x, float temperature)
{
    if (temperature == 1.0) return x;
    return min(divide(x, temperature), uintBitsToFloat(0x7effffffu));
}

int bits_of(uint64_t x)
{
    const uint high = uint(x >> 32);
    return high != 0u ? 33 + findMSB(high) : 1 + findMSB(uint(x));
}

/* (high, low) / 2^k to nearest, ties to even; 0 <= k < 128. */
uint64_t shift_nearest(uint64_t high, uint64_t low, int k)
{
    if (k == 0) return low;
    if (k > 64) { /* the lowest 64 bits only decide whether there is a rest */
        low = high << 128 - k | (low != 0ul ? 1ul : 0ul);
        high >>= k - 64;
        k = 64;
    }
    const uint64_t r = k == 64 ? high : high << 64 - k | low >> k;
    const uint64_t rest = k == 64 ? low : low << 64 - k, half_unit = 1ul << 63;
    return r + (rest > half_unit || (rest == half_unit && (r & 1ul) != 0ul) ? 1ul : 0ul);
}

/* The whole part of m 2^-e times sum, as doubles multiply: both are rounded to 53 bits. */
uint64_t times(uint64_t m, int e, uint64_t sum)
{
    const int s = max(0, bits_of(sum) - 53);
    const uint64_t t = shift_nearest(0ul, sum, s), low32 = 0xfffffffful;
    const uint64_t ll = (m & low32) * (t & low32), lh = (m & low32) * (t >> 32);
    const uint64_t hl = (m >> 32) * (t & low32), hh = (m >> 32) * (t >> 32);
    const uint64_t mid = (ll >> 32) + (lh & low32) + (hl & low32);
    const uint64_t low = ll & low32 | mid << 32, high = hh + (lh >> 32) + (hl >> 32) + (mid >> 32);
    const int k = max(0, (high != 0ul ? 64 + bits_of(high) : bits_of(low)) - 53);
    const uint64_t r = shift_nearest(high, low, k);
    const int up = k + s - e;
    return up >= 0 ? r << up : up > -64 ? r >> -up : 0ul;
}

/* The cumulative weight at which top_p stops, of `sum`. */
uint64_t top_p_goal(float p, uint64_t sum)
{
    const uint u = floatBitsToUint(p);
    if (!(p > 0.0) || p >= 1.0) return 0ul;
    return times(uint64_t((u & 0x7fffffu) | 0x800000u), 150 - int(u >> 23), sum);
}

uint64_t mix64(uint64_t z)
{
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9ul;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBul;
    return z ^ z >> 31;
}

/* The first id, in ascending order, whose cumulative weight exceeds this is drawn. */
uint64_t draw_at(Draw d, uint64_t sum)
{
    const uint64_t first = mix64(d.seed + 0x9E3779B97F4A7C15ul * (d.position + 1ul));
    const uint64_t bits = mix64(first ^ mix64(0xD1B54A32D192ED03ul + d.seed));
    return min(times(bits >> 11, 53, sum), sum - 1ul);
}

/* ---- keys and bins ---- */

/* Larger logits have larger keys; 0: excluded. +0 and -0 have the same key. */
uint64_t key_of(float x, int id)
{
    if (!(x > -INF)) return 0ul;
    const uint u = x == 0.0 ? 0u : floatBitsToUint(x);
    const uint ordered = (u & 0x80000000u) != 0u ? ~u : u | 0x80000000u;
    return uint64_t(ordered) << 32 | uint64_t(~uint(id));
}

float key_value(uint64_t key)
{
    const uint u = uint(key >> 32);
    return uintBitsToFloat((u & 0x80000000u) != 0u ? u & 0x7fffffffu : ~u);
}

int key_id(uint64_t key)
{
    return int(~uint(key));
}

/* A lower logit never has a lower bin. */
int bin_of(float x, float top)
{
    precise float below = top - x;
    precise float far = (below - float(FINE)) * float(COARSE_BINS) + float(FINE * FINE_BINS);
    precise float near = below * float(FINE_BINS);
    return int(min(below < float(FINE) ? near : far, float(BINS - 1)));
}

/* ---- sums of a workgroup ---- */

shared uint64_t scan_v[WG];

/* The sum over the invocations before this one, and over all. */
uint64_t sum_before(uint64_t v, out uint64_t all)
{
    const uint i = gl_LocalInvocationIndex;
    barrier(); /* an earlier call may still read scan_v */
    scan_v[i] = v;
    barrier();
    for (uint s = 1u; s < uint(WG); s *= 2u) {
        const uint64_t w = i >= s ? scan_v[i - s] : 0ul;
        barrier();
        scan_v[i] += w;
        barrier();
    }
    all = scan_v[WG - 1];
    return scan_v[i] - v;
}

uint64_t sum_all(uint64_t v)
{
    uint64_t all;
    sum_before(v, all);
    return all;
}

uint64_t largest_of(uint64_t v)
{
    const uint i = gl_LocalInvocationIndex;
    barrier();
    scan_v[i] = v;
    barrier();
    for (uint s = uint(WG) / 2u; s > 0u; s /= 2u) {
        if (i < s) scan_v[i] = max(scan_v[i], scan_v[i + s]);
        barrier();
    }
    return scan_v[0];
}

/* The largest logit of the row. */
uint64_t row_best(int t)
{
    const int me = int(gl_LocalInvocationIndex);
    return largest_of(me < a.blocks ? at64(a.best, t * a.blocks + me).v[0] : 0ul);
}
