"""Train, quantise and save the example model: handwritten digits of 8x8 pixels.

Writes digits.tflite, the sample inputs digit_<n>.npy (int8, already quantised) and labels.txt beside this file.
Needs tensorflow and scikit-learn, which the project itself does not: pip install tensorflow scikit-learn
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).parent
SEED = 7


def build() -> tf.keras.Model:
    """A residual block of plain and depthwise convolutions, about 14 thousand weights."""
    layers = tf.keras.layers
    image = layers.Input((8, 8, 1), batch_size=1)
    stem = layers.Conv2D(16, 3, padding="same", activation="relu")(image)
    x = layers.DepthwiseConv2D(3, padding="same", activation="relu")(stem)
    x = layers.Conv2D(16, 1)(x)
    x = layers.ReLU()(layers.Add()([stem, x]))
    x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu6")(x)
    x = layers.Conv2D(32, 1, activation="relu")(x)
    x = layers.AveragePooling2D(2)(x)
    x = layers.Reshape((32,))(x)
    return tf.keras.Model(image, layers.Softmax()(layers.Dense(10)(x)))


def main() -> None:
    """Train on four fifths of the data, print the accuracy on the rest, save."""
    tf.keras.utils.set_random_seed(SEED)
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    train_x, test_x, train_y, test_y = train_test_split(images, digits.target, test_size=0.2, random_state=SEED)
    model = build()
    trainable = tf.keras.Model(model.inputs, model.outputs)
    trainable.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    dataset = tf.data.Dataset.from_tensor_slices((train_x, train_y)).shuffle(2000, seed=SEED).batch(1).repeat()
    trainable.fit(dataset, steps_per_epoch=len(train_x), epochs=12, verbose=2)

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([image[None]] for image in train_x[:300])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    content = converter.convert()
    (HERE / "digits.tflite").write_bytes(content)
    (HERE / "labels.txt").write_text("".join(f"{n}\n" for n in range(10)))

    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    detail = interpreter.get_input_details()[0]
    scale, zero_point = detail["quantization"]
    quantised = np.clip(np.round(test_x / scale) + zero_point, -128, 127).astype(np.int8)
    predictions = []
    for image in quantised:
        interpreter.set_tensor(detail["index"], image[None])
        interpreter.invoke()
        predictions.append(int(np.argmax(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))))
    sys.stdout.write(f"int8 accuracy on {len(test_y)} unseen digits: {np.mean(np.array(predictions) == test_y):.1%}\n")
    for digit in range(10):
        right = [i for i, label in enumerate(test_y) if label == digit and predictions[i] == digit]
        np.save(HERE / f"digit_{digit}.npy", quantised[right[0]][None])


if __name__ == "__main__":
    main()
