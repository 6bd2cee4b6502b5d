"""Plain text that prompts are made of: notes of many kinds, and tasks to end with. Written for this project.

Owns: the texts, the same for ever. Changing one changes every prompt made of them, which their hash shows.
"""

from __future__ import annotations

#: Of such text, with a tokenizer of 100,000 words and more; what came of it the server counts.
CHARACTERS_A_TOKEN = 4.5

NOTES = (
    (
        "The ferry leaves the north pier every forty minutes from six in the morning until a little past "
        "ten at night. On stormy days the captain decides at five, and the decision is chalked on a "
        "board by the ticket window. Bicycles travel free, cars must be booked a day ahead, and dogs are "
        "asked to stay on the lower deck."
    ),
    (
        "To mend a dripping tap, close the valve under the sink and open the tap until no more water "
        "comes. Unscrew the cap, then the spindle, and look at the washer: if it is flat or cracked, "
        "take it to a shop and buy two of the same size. Put everything back in the reverse order, and "
        "open the valve slowly."
    ),
    (
        "Meeting of 14 March. Present: Okafor, Lindqvist, Marchetti, Tan. The budget for the second "
        "quarter was accepted with one change: travel is cut by a tenth, and the money goes to the "
        "repair of the cold store. Marchetti will ask three firms for offers by the end of the month. "
        "Next meeting on the 28th."
    ),
    (
        "A binary search keeps two marks, one at each end of a sorted list. It looks at the middle, "
        "drops the half that cannot hold the value, and goes on with the other. After twenty steps a "
        "list of a million entries is down to one. The usual mistake is an end mark that is off by one, "
        "so that the loop never ends."
    ),
    (
        "The old orchard had eleven kinds of apple, and only my grandmother knew all their names. She "
        "could tell them by the leaf in May and by the smell of the cellar in January. When she was "
        "ninety we walked through it once more with a notebook, and I wrote down what she said, tree by "
        "tree."
    ),
    (
        "Volcanic ash is not like the ash of a fire. It is rock, broken so fine that the wind carries it "
        "a thousand kilometres, and each grain has sharp edges. In an engine it melts and settles on the "
        "blades as glass, which is why aircraft are kept on the ground even when the sky looks clear."
    ),
    (
        "Dear Mr. Haddad, thank you for returning the lens so carefully packed. Our workshop found that "
        "the second ring had been mounted the wrong way round, which explains the blur you saw at the "
        "edges. We have corrected it at no charge and tested it at all distances. It leaves here on "
        "Thursday by registered post."
    ),
    (
        "def moving_average(values, width):\n    total = sum(values[:width])\n    averages = [total / "
        "width]\n    for old, new in zip(values, values[width:]):\n        total += new - old\n        "
        "averages.append(total / width)\n    return averages\n\nThe sum is updated, not made again, so "
        "the cost does not grow with the width."
    ),
    (
        "In chess, an opening is judged by what it gives: pieces that stand well, a safe king, and a "
        "share of the centre. Beginners learn moves by heart and are lost when the other side plays "
        "something else. It is better to know why each move is made, for then a surprise is only a "
        "question that can be answered."
    ),
    (
        "Patient is a 54-year-old teacher with pain in the left knee for six weeks, worse on stairs and "
        "better with rest. No fall, no fever. The joint is slightly warm, with full extension and some "
        "loss of bending. Advised to swim rather than run, to keep a diary of the pain, and to come "
        "again in a month."
    ),
    (
        "The treaty was signed in a tent beside the river, because neither side would cross the bridge "
        "first. It settled the price of salt, the use of the mill, and the return of forty-two "
        "prisoners. The quarrel over the upper meadow was left out on purpose, and came back to trouble "
        "the grandchildren of those who signed."
    ),
    (
        "Bread needs four things and one of them is time. Mix flour, water, salt and a little yeast in "
        "the evening, cover the bowl, and leave it in a cool kitchen overnight. In the morning fold it a "
        "few times, let it rest for an hour, and bake it in a covered pot as hot as the oven will go."
    ),
    (
        "The survey asked 1,204 households about their heating. Gas was named by 51 per cent, heat pumps "
        "by 22, district heating by 17, and wood or oil by the rest. Compared with five years earlier, "
        "gas lost nine points and heat pumps gained eight. Owners had changed twice as often as tenants."
    ),
    (
        "Light from the nearest star takes more than four years to reach us, so we see it as it was. For "
        "most of the stars in the night sky it is hundreds of years, and for the faint patch in "
        "Andromeda two and a half million. Looking up is looking back, and the further one looks the "
        "older the picture."
    ),
    (
        "The warehouse has three gates. Deliveries come through the east gate before noon, returns "
        "through the south gate at any time, and the west gate is for staff. Every pallet gets a label "
        "with a number and a colour: blue for dry goods, green for cooled ones, red for whatever must be "
        "checked by hand."
    ),
    (
        "A good review of code begins with a question: what is this change meant to do? Then one reads "
        "the tests, which show what the author thought of, and after that the code, looking for what "
        "they did not think of. Remarks on taste come last, marked as such, and never keep a sound "
        "change waiting."
    ),
    (
        "The river bends twice before it reaches the village, and in dry summers one can walk across at "
        "the second bend. Otters have come back in the last ten years. They are seldom seen, but they "
        "leave the scales of carp on a flat stone under the alders, and their tracks in the mud after "
        "rain."
    ),
    (
        "Article 7. The tenant may sublet a room with the written consent of the owner, who may refuse "
        "it only for a good reason. Consent counts as given when no answer comes within four weeks. The "
        "tenant remains liable for the rent and for damage done by a subtenant as if it were their own."
    ),
    (
        "A choir sounds flat for two reasons. Either the singers do not support the long notes, and sink "
        "a little with each breath, or the room swallows the high voices so that the others cannot hear "
        "where they are. The cure for the first is practice, for the second a different way of standing."
    ),
    (
        "When a distributed system loses the link between two halves, each half must choose. It can go "
        "on answering and risk that the two halves disagree, or it can stop answering and stay correct. "
        "Most real systems choose differently for reading and writing, and write down which, so that "
        "nobody is surprised."
    ),
    (
        "Our first camp was by the lake, at two thousand metres. In the night the temperature fell to "
        "minus eight, and the water in the bottles froze. We set off at four with lamps, reached the "
        "ridge at sunrise, and saw the summit for the first time, much further away than the map had led "
        "us to hope."
    ),
    (
        "Copper conducts better than aluminium, but aluminium is lighter and cheaper, so the long lines "
        "between cities are made of it, with a core of steel to carry the weight. In houses copper is "
        "used, because its contacts stay tight and a thin wire is easier to bend behind a socket."
    ),
    (
        "She opened the letter at the station, standing, with her coat still buttoned. It was shorter "
        "than she had feared. The house was sold, the piano had gone to the school, and there was a box "
        "of photographs for her if she would come before Easter. The train for the coast was already "
        "announced."
    ),
    (
        "To compare two medicines fairly, chance must decide who gets which. If doctors choose, they "
        "give the new one to those who seem stronger, and it looks better than it is. Neither patient "
        "nor doctor should know, because hope alone changes what people report, and what others see in "
        "them."
    ),
)

TASKS = (
    "Summarise the notes above in three sentences.",
    "Choose one of the notes above and continue it in the same manner, as a longer text.",
    "Write a letter to a friend in which at least two of the notes above play a part.",
    "List the facts in the notes above that contain a number, and say for each what it means.",
    "Explain to a child of ten what the last complete note is about.",
    "Which of the notes above could come from the same book? Give reasons at length.",
    "Write a short story that begins where one of the notes above ends.",
    "Make a table of contents for a magazine that prints the notes above, with a line on each.",
)
