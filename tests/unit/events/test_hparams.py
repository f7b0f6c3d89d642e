from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2, summary_v2
from tensorboard.plugins.hparams import metadata as theirs

from stepscope.events import hparams
from stepscope.events.wire import decode, encode

CONFIG = {"lr": 1e-3, "layers": 3, "bias": True, "name": "ä", "none": None, "sizes": (1, 2)}


def content(value):
    assert value.metadata.plugin_name == theirs.PLUGIN_NAME
    return value.metadata.plugin_data.content


def test_tensorboard_reads_a_start():
    value = hparams.start_value(CONFIG, group_name="group", start_time_secs=1.5)
    assert value.tag == theirs.SESSION_START_INFO_TAG
    read = theirs.parse_session_start_info_plugin_data(content(value))
    assert (read.group_name, read.start_time_secs) == ("group", 1.5)
    kinds = {name: found.WhichOneof("kind") for name, found in read.hparams.items()}
    assert kinds == {
        "lr": "number_value",
        "layers": "number_value",
        "bias": "bool_value",
        "name": "string_value",
        "none": "null_value",
        "sizes": "string_value",
    }
    assert read.hparams["lr"].number_value == 1e-3
    assert read.hparams["name"].string_value == "ä"


def test_tensorboard_reads_an_end():
    value = hparams.end_value(hparams.Status.FAILURE, end_time_secs=2.5)
    assert value.tag == theirs.SESSION_END_INFO_TAG
    read = theirs.parse_session_end_info_plugin_data(content(value))
    assert (read.status, read.end_time_secs) == (2, 2.5)


def test_we_read_what_tensorboard_writes():
    summary = summary_v2.hparams_pb({"lr": 0.1, "bias": False, "name": "x"}, start_time_secs=5)
    data = next(
        v for v in summary.value if v.tag == theirs.SESSION_START_INFO_TAG
    ).metadata.plugin_data.content
    start = hparams.decode_content(data).session_start_info
    assert start.hparams == {"lr": 0.1, "bias": False, "name": "x"}
    assert start.start_time_secs == 5


def test_what_we_wrote_we_read():
    start = hparams.decode_content(
        content(hparams.start_value(CONFIG, start_time_secs=1.0))
    ).session_start_info
    assert start.hparams == CONFIG | {"sizes": "(1, 2)"}


def test_we_read_the_experiment_that_tensorboard_writes():
    hp = summary_v2
    hparams_ = [
        hp.HParam("lr", hp.RealInterval(1e-4, 0.1), display_name="learning rate", description="of Adam"),
        hp.HParam("units", hp.Discrete([16, 32])),
        hp.HParam("deep", hp.Discrete([True, False])),
        hp.HParam("any"),
    ]
    metrics = [
        hp.Metric("epoch_accuracy", group="validation", display_name="accuracy (val.)"),
        hp.Metric("loss", description="mean"),
    ]
    summary = hp.hparams_config_pb(hparams_, metrics, time_created_secs=5.0)
    [value] = [each for each in summary.value if each.tag == theirs.EXPERIMENT_TAG]
    data = value.metadata.plugin_data.content
    found = hparams.decode_content(data).experiment
    assert found.time_created_secs == 5.0
    assert found.facts == {
        "description": "",
        "hparams": [
            {
                "name": "lr",
                "display_name": "learning rate",
                "description": "of Adam",
                "low": 1e-4,
                "high": 0.1,
            },
            {"name": "units", "display_name": "", "description": "", "values": [16, 32]},
            {"name": "deep", "display_name": "", "description": "", "values": [False, True]},
            {"name": "any", "display_name": "", "description": ""},
        ],
        "metrics": [
            {
                "tag": "epoch_accuracy",
                "group": "validation",
                "display_name": "accuracy (val.)",
                "description": "",
            },
            {"tag": "loss", "group": "", "display_name": "", "description": "mean"},
        ],
    }
    again = plugin_data_pb2.HParamsPluginData.FromString(encode(decode(hparams.PluginContent, data)))
    assert again == plugin_data_pb2.HParamsPluginData.FromString(data)


def test_an_experiment_stays_as_it_is():
    proto = plugin_data_pb2.HParamsPluginData()
    proto.experiment.description = "text"
    data = proto.SerializeToString()
    assert hparams.decode_content(data).session_start_info is None
    assert encode(decode(hparams.PluginContent, data)) == data


def test_tensorboard_reads_of_which_type_a_hyperparameter_is():
    value = hparams.experiment_value({"text": "adam", "flag": False, "whole": 2, "real": 0.5}, ())
    infos = theirs.parse_experiment_plugin_data(content(value)).hparam_infos
    assert {each.name: each.type for each in infos} == {
        "text": api_pb2.DATA_TYPE_STRING,
        "flag": api_pb2.DATA_TYPE_BOOL,
        "whole": api_pb2.DATA_TYPE_FLOAT64,
        "real": api_pb2.DATA_TYPE_FLOAT64,
    }
