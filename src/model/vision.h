/* model/vision.h - a vision tower: an mmproj file bound to a device. It turns one picture into the
 * rows that take the place of its tokens in a text model. Owns its weights and, through the open
 * file, the mapped ones; its activations live while a picture is encoded.
 *
 * A tower runs as a step of its own: N rows, one for each patch, that all see each other. Where a
 * device has no op for that, keys and values lie in pages that only the tower knows, and attention
 * is the text models' op. */
#ifndef FT_MODEL_VISION_H
#define FT_MODEL_VISION_H

#include "image/image.h"
#include "model/bind.h"

/* A picture's size on its way through a tower. */
typedef struct ft_grid {
    int W, H;       /* pixels after resizing */
    int gw, gh;     /* patches */
    int cols, rows; /* tokens */
} ft_grid;

typedef struct ft_vision ft_vision;

/* Whether rows of one picture see each other in the text model's sliding layers, as the file says;
 * BY_MODEL: it does not say. */
typedef enum ft_image_attention {
    FT_IMAGE_BY_MODEL,
    FT_IMAGE_CAUSAL,
    FT_IMAGE_AHEAD
} ft_image_attention;

/* What a step of a tower reads; all of it on the device. */
typedef struct ft_vision_input {
    ft_grid grid;
    ft_mat patches;      /* [N, 3 p p] */
    ft_mixing positions; /* of rows of the position table */
    ft_mixing pooling;   /* of patches, for each token; n 0: none */
} ft_vision_input;

typedef struct ft_tower {
    const char *projector; /* clip.projector_type */
    const char *words;     /* "Qwen3.5 vision tower" */
    void (*bind)(ft_vision *v, ft_binder *b);
    void (*release)(ft_vision *v);
    /* forward() runs in pieces, each of which leaves what the next one needs in the arena: piece 0
     * reads the patches, piece l + 1 is block l, and the last one makes the rows. */
    void (*forward)(const ft_vision *v, ft_step *s, const ft_vision_input *in, ft_mat out,
                    int piece);
    /* Activation values that forward() takes from the arena for N patches. */
    size_t (*arena)(const ft_vision *v, int N);
    /* Row t of the position mixing: `row` and `w` have room for four. Returns how many. */
    int (*position)(const ft_vision *v, const ft_grid *g, int y, int x, int32_t *row, float *w);
} ft_tower;

struct ft_vision {
    const ft_tower *tower;
    ft_model *m;            /* its file, device, weights and cfg */
    int p, merge;           /* side of a patch in pixels; of a block whose patches are neighbours */
    int unit;               /* side of a token in pixels */
    int pool;               /* patches of a token's side that are averaged; 0: none */
    int pieces;             /* of forward() */
    int E;                  /* width of the rows that it makes */
    int H, d;               /* heads of its attention; 0: it has none */
    int most;               /* patches per side that have a position; 0: any number */
    int64_t min_px, max_px; /* picture sizes, by area */
    bool by_budget;         /* the picture is also scaled up, to max_px */
    ft_image_attention attention;
    float pool_scale; /* factor on the mean of pooled patches */
    float mean[3], std[3];
    ft_profile *profile; /* of its ops; NULL: none */
    ft_probe_fn *probe;  /* reports named activations; NULL: none */
    void *probe_user;
};

/* Takes over the file. E: width of the text model, which the tower's rows must have; 0: any. */
ft_status ft_vision_open(ft_vision **out, ft_gguf *file, ft_dev *dev, int E, ft_err *err);
void ft_vision_close(ft_vision *v);
/* Whether a file is a vision tower. */
bool ft_vision_is(const ft_gguf *file);

/* How large a picture of w x h pixels becomes. Tokens are limited to `most` where it is above 0,
 * and are at least `least` where the model's sizes go by area. */
ft_status ft_vision_fit(const ft_vision *v, int w, int h, int least, int most, ft_grid *g,
                        ft_err *err);
/* About how much device memory encoding takes, besides the weights, for the largest picture of at
 * most `most` tokens (0: as the file says), on a device with its own memory. */
uint64_t ft_vision_bytes(const ft_vision *v, int most);
/* Runs some pieces of a blank picture of that size, so that the device grows its buffers before
 * steps are captured: growing them later would drop the captured graphs. */
ft_status ft_vision_warm_up(ft_vision *v, int most, ft_err *err);
/* Resizes the picture to the grid and runs the tower: out [rows cols, E]. */
ft_status ft_vision_encode(ft_vision *v, const ft_image *m, const ft_grid *g, float *out,
                           ft_err *err);

/* The same in pieces, between which the device may do something else. Owns device memory. */
typedef struct ft_encoding ft_encoding;
ft_status ft_encoding_new(ft_encoding **out, ft_vision *v, const ft_image *m, const ft_grid *g,
                          ft_err *err);
/* Runs at least one piece, and no more than are expected to take `seconds`. *done: `out` is
 * filled. */
ft_status ft_encoding_run(ft_encoding *e, double seconds, float *out, bool *done, ft_err *err);
void ft_encoding_free(ft_encoding *e);

/* ---- for the towers ---- */

/* Angles of n values, quarter = d / 4 frequencies base^(-k / quarter) for each axis from `axis` on:
 * 0 is the row of a patch, 1 its column. */
ft_rope ft_vision_rope(ft_binder *b, int n, int quarter, double base, int axis);
extern const ft_tower ft_tower_qwen35, ft_tower_gemma4, ft_tower_gemma4_unified;

#endif
