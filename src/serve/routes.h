/* serve/routes.h - the route handlers. */
#ifndef FT_SERVE_ROUTES_H
#define FT_SERVE_ROUTES_H

#include "serve/call.h"

void ft_run_health(ft_call *c);
void ft_run_models(ft_call *c);
void ft_run_model(ft_call *c);
void ft_run_models_load(ft_call *c);
void ft_run_models_unload(ft_call *c);
void ft_run_props(ft_call *c);
void ft_run_props_set(ft_call *c);
void ft_run_slots(ft_call *c);
void ft_run_slot_action(ft_call *c);
void ft_run_metrics(ft_call *c);
void ft_run_lora(ft_call *c);
void ft_run_lora_set(ft_call *c);
void ft_run_page(ft_call *c); /* ui.c: the files of web/ */

void ft_run_chat(ft_call *c);
void ft_run_chat_count(ft_call *c);
void ft_run_chat_control(ft_call *c);
void ft_run_completions(ft_call *c);
void ft_run_completion(ft_call *c);
void ft_run_infill(ft_call *c);
void ft_run_responses(ft_call *c);
void ft_run_responses_count(ft_call *c);
void ft_run_messages(ft_call *c);
void ft_run_messages_count(ft_call *c);

void ft_run_tokenize(ft_call *c);
void ft_run_detokenize(ft_call *c);
void ft_run_template(ft_call *c);
void ft_run_embeddings(ft_call *c);
void ft_run_embedding(ft_call *c);
void ft_run_rerank(ft_call *c);

void ft_run_ollama_version(ft_call *c);
void ft_run_ollama_tags(ft_call *c);
void ft_run_ollama_ps(ft_call *c);
void ft_run_ollama_show(ft_call *c);
void ft_run_ollama_chat(ft_call *c);
void ft_run_ollama_generate(ft_call *c);
void ft_run_ollama_embed(ft_call *c);
void ft_run_ollama_embeddings(ft_call *c);
void ft_run_ollama_pull(ft_call *c);
void ft_run_ollama_delete(ft_call *c);
void ft_run_ollama_copy(ft_call *c);
void ft_run_ollama_create(ft_call *c);
void ft_run_ollama_unsupported(ft_call *c); /* push */

#endif
