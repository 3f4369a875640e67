/* coop_rows.glsl - which rows of x a workgroup of one.comp, few.comp or many.comp multiplies, with
 * which matrix, and where the results go. */
const int PLANNED = 1, DIRECT = 2, ROUTED = 3; /* EXPERTS; 0: none */
layout(push_constant, scalar) uniform Push {
    ADDRESS w, x, y, scale, plan, matrix; /* matrix: bytes of one expert's weights */
    int n, k, T, x_rs, y_rs, y_hs, y_d;
    uint row_bytes;
    int acc, K; /* K: rows of x are pairs / K */
    int rows;   /* of a group, at most */
    int act;    /* of a pair of matrices (one.comp, few.comp), */
    ADDRESS up, up_scale, by; /* the second one, its scale, and a factor of each row or none, */
    int by_rs;                /* so many values apart */
    /* ROUTED: plan is the scores of T experts for each row of x, by_rs values apart */
} a;

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Tiles {
    int n, pad;
    ivec3 v[]; /* expert, first pair, pairs */
};

struct Group {
    ADDRESS w, up;
    float scale, up_scale;
    int first, n; /* rows, or places in the list of pairs; n == 0: none */
};

Group group_of(int expert)
{
    Group r;
    r.first = ROW_GROUP * a.rows;
    r.n = min(a.rows, a.T - r.first);
    if (EXPERTS == PLANNED) {
        ivec3 tile = ivec3(0); /* the list has fewer tiles than the grid */
        if (int(gl_WorkGroupID.y) < Tiles(a.plan).n) tile = Tiles(a.plan).v[gl_WorkGroupID.y];
        expert = tile.x;
        r.first = tile.y;
        r.n = tile.z;
    }
    if (EXPERTS == DIRECT) expert = I32(a.plan).v[gl_WorkGroupID.y];
    if (EXPERTS == DIRECT || EXPERTS == ROUTED) r.n = 1;
    r.w = a.w + a.matrix * uint64_t(expert);
    r.up = a.up + a.matrix * uint64_t(expert);
    r.scale = (a.scale != 0ul ? F32(a.scale).v[expert] : 1.0) / X_SCALE;
    r.up_scale = (a.up_scale != 0ul ? F32(a.up_scale).v[expert] : 1.0) / X_SCALE;
    return r;
}

/* Row i of the group in y, and in x. */
int row_at(Group r, int i)
{
    if (EXPERTS != PLANNED) return r.first + i;
    return I32(a.plan + 8ul + 12ul * uint64_t(gl_NumWorkGroups.y)).v[r.first + i];
}

int source_at(Group r, int i)
{
    return EXPERTS == 0 ? r.first + i : row_at(r, i) / a.K;
}

F32 place(Group r, int i, int o)
{
    return F32(a.y + 4ul * uint64_t(int64_t(row_at(r, i)) * a.y_rs + int64_t(o / a.y_d) * a.y_hs +
                                    o % a.y_d));
}

void store(Group r, int i, int o, float sum)
{
    if (o >= a.n || i >= r.n) return;
    F32 y = place(r, i, o);
    precise float v = sum * r.scale;
    if (a.acc != 0) v = y.v[0] + v;
    y.v[0] = v;
}
