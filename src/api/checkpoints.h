/* api/checkpoints.h - which positions of a prompt matter to prefix checkpoints, found in its ids.
 */
#ifndef FT_API_CHECKPOINTS_H
#define FT_API_CHECKPOINTS_H

#include "api/model.h"
#include "text/bpe.h"

typedef struct ft_prompt_marks {
    int checkpoint[FT_CHECKPOINTS_MAX], n_checkpoint;
    ft_task_range *response;
    int n_response;
    int32_t checkpoint_id;
} ft_prompt_marks;

/* See the fields of these names in ft_task. */
ft_status ft_prompt_marks_init(ft_prompt_marks *p, const ft_llm *m, const ft_ids *ids, ft_err *err);
void ft_prompt_marks_release(ft_prompt_marks *p);

#endif
