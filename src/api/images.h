/* api/images.h - images of requests: from bytes to the rows that stand in a prompt.
 * A model that reads images has a vision tower beside it. Images are decoded and resized on the
 * caller's thread; the tower runs on the engine's when the request has a slot, in pieces between
 * the steps of other sequences. Rows of recent images are cached. */
#ifndef FT_API_IMAGES_H
#define FT_API_IMAGES_H

#include "api/model.h"
#include "model/vision.h"
#include "text/bpe.h"

/* Opens the tower that the parameters name, or the one beside the model. */
ft_status ft_llm_open_images(ft_llm *m, const ft_llm_params *p, ft_err *err);
void ft_llm_close_images(ft_llm *m);
/* The same tower bound to a device without memory, to compute sizes; NULL: none, or one that cannot
 * be opened. *most: the maximum number of tokens of an image, as ft_vision_fit takes it. */
ft_vision *ft_llm_size_images(const ft_llm *m, const ft_llm_params *p, ft_dev *none, int *most);
/* The text that stands for one image in a prompt; NULL: the model reads none. */
const char *ft_llm_image_marker(const ft_llm *m);
enum { FT_IMAGE_IDS = 8 };
/* Ids that stand for images and around them; returns how many. */
int ft_llm_image_ids(const ft_llm *m, int32_t out[FT_IMAGE_IDS]);

/* What users may type, of what stands for images: ids, and the aliases of their texts. */
typedef struct ft_placeholders {
    ft_vocab *v;
    int32_t id[FT_IMAGE_IDS];
    char alias[FT_IMAGE_IDS][64];
    int n;
} ft_placeholders;

void ft_placeholders_init(ft_placeholders *p, ft_vocab *v, const int32_t *id, int n);
/* Replaces them in all texts of a JSON value by their aliases. */
void ft_placeholders_hide(const ft_placeholders *p, json_t *v);
/* A copy of a text with the placeholders in place of their aliases. */
char *ft_placeholders_show(const ft_placeholders *p, const char *text);
/* Those of the model; NULL: it reads no images. */
const ft_placeholders *ft_llm_placeholders(const ft_llm *m);

/* The images of one prompt. */
typedef struct ft_prompt_images {
    ft_task_image *image;
    struct ft_tower_rows **rows; /* [n]: what the images' data points into */
    int n;
    struct ft_images *of;
} ft_prompt_images;

/* Reads the request's images and puts their tokens where the placeholders are in ids. Refuses
 * another number of images than of placeholders. */
ft_status ft_prompt_images_init(ft_prompt_images *out, ft_llm *m, const ft_request *r, ft_ids *ids,
                                ft_err *err);
void ft_prompt_images_release(ft_prompt_images *p, const ft_llm *m);
void ft_prompt_images_task(const ft_prompt_images *p, const ft_llm *m, ft_task *t);

#endif
