"""A language model of a few thousand weights, built on the spot, and a toy task that it can learn."""

import json
import warnings

import pytest

CHARACTERS = "abcdefghijsu .:"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'][0] }}:{{ message['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)
TOY_REWARDS = '''
def share_of_a(completions, **kwargs):
    """The share of a completion's characters that are the letter a."""
    texts = [text if isinstance(text, str) else text[0]["content"] for text in completions]
    return [text.count("a") / max(1, len(text)) for text in texts]
'''


def build_model(folder, chat=False):
    """Save a Qwen2 of about 10,000 weights with a character tokenizer."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    vocabulary = {token: index for index, token in enumerate(["<pad>", "<eos>", "<unk>", *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    )
    if chat:
        wrapped.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Folder of the tiny model, without a chat template."""
    return build_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_chat_model(tmp_path_factory):
    """Folder of the tiny model, with a chat template."""
    return build_model(tmp_path_factory.mktemp("tiny-chat"), chat=True)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A folder with prompts and a reward of the user's own, which is also the current one."""
    rows = [{"prompt": f"{a}{b}:", "answer": "aaaa"} for a in "bcdefghij" for b in "bcdefghij"]
    (tmp_path / "toy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "toy_rewards.py").write_text(TOY_REWARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def _warnings_of_the_training_stack():
    """What torch, TRL and transformers warn of among themselves is no fault of this project."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", ".*pin_memory.*", UserWarning)
        yield
